"""A build backend that builds nothing: `lostfound demo` wants a source archive's manual, never its setup code.

pip asks the backend of every source archive for metadata before it keeps the archive. Under the name `setuptools`
on a path of its own, this module answers from the archive's PKG-INFO instead of running what is inside (PEP 517).
pip runs it by itself, in the unpacked archive: it imports nothing of ours.
"""

import shutil
from email.parser import BytesHeaderParser
from pathlib import Path


def get_requires_for_build_wheel(_config_settings: object = None) -> list[str]:
    """Nothing is built, so nothing is needed."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, _config_settings: object = None) -> str:
    """Name a `.dist-info` folder whose METADATA is the archive's PKG-INFO."""
    said = BytesHeaderParser().parsebytes(Path("PKG-INFO").read_bytes())
    folder = Path(metadata_directory, f"{said['Name']}-{said['Version']}.dist-info")
    folder.mkdir()
    shutil.copy("PKG-INFO", folder / "METADATA")
    return folder.name


class __legacy__:  # noqa: N801 - the name under which pip looks for archives without a pyproject.toml
    get_requires_for_build_wheel = staticmethod(get_requires_for_build_wheel)
    prepare_metadata_for_build_wheel = staticmethod(prepare_metadata_for_build_wheel)
