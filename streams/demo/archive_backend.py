"""A build backend that builds nothing, so that pip downloads a source archive without running its setup code.

pip asks the build backend of every source archive for metadata before it saves the archive. This module replaces
`setuptools` on a separate import path, and takes the metadata from the archive's PKG-INFO (PEP 517). pip runs the
module in a separate process whose working directory is the unpacked archive, so the module must not import anything
from this project.
"""

import shutil
from email.parser import BytesHeaderParser
from pathlib import Path


def get_requires_for_build_wheel(_config_settings: object = None) -> list[str]:
    """Return no requirements, because nothing is built."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, _config_settings: object = None) -> str:
    """Create a `.dist-info` folder with the archive's PKG-INFO as METADATA, and return the folder's name."""
    headers = BytesHeaderParser().parsebytes(Path("PKG-INFO").read_bytes())
    folder = Path(metadata_directory, f"{headers['Name']}-{headers['Version']}.dist-info")
    folder.mkdir()
    shutil.copy("PKG-INFO", folder / "METADATA")
    return folder.name


class __legacy__:  # noqa: N801 - pip looks up this name for archives without a pyproject.toml
    get_requires_for_build_wheel = staticmethod(get_requires_for_build_wheel)
    prepare_metadata_for_build_wheel = staticmethod(prepare_metadata_for_build_wheel)
