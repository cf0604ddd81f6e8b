"""Source archives like those of Django, for tests of the demo."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from streams.demo.manuals import Edition

SETUP = "import pathlib, sys\npathlib.Path({marker!r}).touch()\nsys.exit('setup code was run')\n"


def pack(path: Path, files: dict[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def edition_files(edition: Edition, *, marker: str = "") -> dict[str, str]:
    """The files of a source archive: docs in docs/, metadata in PKG-INFO, and setup code that must not run."""
    root = f"Django-{edition.version}"
    page = "===========\nCSRF checks\n===========\n\n" + " ".join(f"word{n}" for n in range(80))
    csrf = "ref/contrib/csrf" if edition.version < "1.6" else "ref/csrf"
    files = {
        f"{root}/PKG-INFO": f"Metadata-Version: 1.1\nName: Django\nVersion: {edition.version}\n",
        f"{root}/setup.py": SETUP.format(marker=marker),
        f"{root}/docs/index.txt": f"Title\n=====\nThe index of the manual of {edition.version}, with enough words for a sketch.\n",
        f"{root}/docs/{csrf}.txt": page,
        f"{root}/docs/requirements.txt": "not a page\n",
        f"{root}/docs/conf.py": "not a page\n",
        f"{root}/django/docs.txt": "not a page\n",
    }
    if edition.version > "5":
        files[f"{root}/pyproject.toml"] = (
            '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n'
        )
    return files
