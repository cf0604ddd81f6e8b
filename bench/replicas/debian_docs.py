"""Download HTML manuals from packages of Debian: the sites that `bench.replicas.mirrors` replicates."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

PACKAGES = (
    "bash-doc", "exim4-doc-html", "git-doc", "libcairo2-doc", "libcurl4-doc", "libfftw3-doc", "libgdk-pixbuf2.0-doc",
    "libpango1.0-doc", "libxml2-doc", "ntpsec-doc", "pari-doc", "postfix-doc", "python-django-doc",
    "python-flask-doc", "python-jinja2-doc", "python-pil-doc", "python-requests-doc", "python-sqlalchemy-doc",
    "python-werkzeug-doc", "r-doc-html", "sphinx-doc", "sqlite3-doc", "swig-doc", "tcl8.6-doc", "varnish-doc",
    "libglib2.0-doc", "libgtk-3-doc", "python3-doc", "gnuplot-doc", "maxima-doc", "libgsl-dev", "python-dateutil-doc",
    "nasm", "make-doc", "erlang-doc", "libssl-doc", "lua-lpeg-dev",
)  # fmt: skip


def download(folder: Path) -> None:
    """Download all packages that `folder` does not contain yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if _archive(folder, package) is None:
            # A package may be unknown to this release of Debian; `read_pages` then finds no archive.
            subprocess.run(["apt-get", "download", "-qq", package], cwd=folder, check=False, capture_output=True)


def read_pages(folder: Path, package: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the HTML of each page of a package, in the order of paths; nothing without an archive.

    Paths start below the deepest folder that contains all pages. Pages in non-UTF-8 encodings are decoded roughly.
    """
    archive = _archive(folder, package)
    if archive is None:
        return
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["dpkg-deb", "-x", str(archive), scratch], check=True)
        files = sorted(file for file in Path(scratch).rglob("*.html") if file.is_file() and not file.is_symlink())
        if not files:
            return
        root = os.path.commonpath([file.parent for file in files])
        for file in files:
            yield str(file.relative_to(root)), file.read_bytes().decode("utf-8", "replace")


def _archive(folder: Path, package: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{package}_*.deb"))), None)
