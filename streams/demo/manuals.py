"""Download the editions of a real manual, and convert each edition into a sweep for the demo.

pip downloads the source archives from the package index, several at a time. Only their text files are read. A page
has the same URL in all editions, like the pages of a site that always shows the newest edition.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from streams.errors import LostfoundError

PROJECT = "Django"
BASE_URL = "https://docs.djangoproject.com/en/stable/"
PAGE_BYTES_MAX = 4_000_000  # a safeguard: the largest page of the manual is 150 kB
DOWNLOADS_MAX = 3  # concurrent; few, because pip unpacks each archive, which keeps a core busy
DOWNLOAD_SECONDS_MAX = 180.0


class ManualUnavailable(LostfoundError):
    """A source archive cannot be downloaded or is broken."""


class Edition(NamedTuple):
    """One release of the manual. Its release date is the capture time of its pages."""

    sweep: str
    version: str
    release_date: str  # ISO date


EDITIONS = (
    Edition("1.3", "1.3.7", "2013-02-20"),
    Edition("1.5", "1.5.12", "2015-01-02"),
    Edition("1.8", "1.8.19", "2018-03-06"),
    Edition("2.2", "2.2.28", "2022-04-11"),
    Edition("3.2", "3.2.25", "2024-03-04"),
    Edition("5.1", "5.1.4", "2024-12-04"),
)


def download_archives(folder: Path, on_ready: Callable[[Edition], None]) -> dict[Edition, Path]:
    """Download all source archives that `folder` does not contain yet, and return the paths of all editions.

    Call `on_ready` once the archive of an edition is available. Raise ManualUnavailable, with pip's last error line,
    if a download fails.
    """
    # pip imports `archive_backend` as `setuptools.build_meta`.
    package = folder / "hooks" / "setuptools"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_bytes(b"")
    shutil.copyfile(Path(__file__).with_name("archive_backend.py"), package / "build_meta.py")

    def download_edition(edition: Edition) -> Path:
        target = folder / f"{PROJECT}-{edition.version}.tar.gz"
        if not target.exists():
            _download_archive(edition, target, package.parent)
        on_ready(edition)
        return target

    with ThreadPoolExecutor(DOWNLOADS_MAX) as pool:
        return dict(zip(EDITIONS, pool.map(download_edition, EDITIONS), strict=True))


def write_sweep(edition: Edition, archive: Path, target: Path) -> int:
    """Write an edition's pages as JSONL, and return how many. Raise ManualUnavailable if the archive is broken."""
    records = [
        {"url": url, "fetch_time": f"{edition.release_date}T00:00:00Z", "title": parse_title(text), "text": text}
        for url, text in sorted(read_pages(archive))
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    partial_file = target.with_suffix(".part")  # later runs reuse the target, so it must be complete
    partial_file.write_text(
        "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8"
    )
    partial_file.replace(target)
    return len(records)


def read_pages(archive: Path) -> Iterator[tuple[str, str]]:
    """Yield the URL and text of every page. Raise ManualUnavailable if the archive is broken."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                _, _, path = member.name.partition("/docs/")
                if not path.endswith(".txt") or path == "requirements.txt" or not member.isfile():
                    continue
                if member.size <= PAGE_BYTES_MAX and (file := tar.extractfile(member)):
                    yield page_url(path), file.read().decode("utf-8", "replace")
    except (tarfile.TarError, OSError, EOFError) as error:
        archive.unlink(missing_ok=True)
        hint = "the file was deleted; run the demo again"
        raise ManualUnavailable(f"{archive} is not a complete archive: {error}", hint) from error


def page_url(path: str) -> str:
    """Return the URL of a manual page: `ref/csrf.txt` -> `.../ref/csrf/`, `ref/index.txt` -> `.../ref/`."""
    stem = path.removesuffix(".txt")
    stem = "" if stem == "index" else stem.removesuffix("/index")
    return BASE_URL + (f"{stem}/" if stem else "")


def parse_title(text: str) -> str:
    """Return the first heading (an underlined line) of a reStructuredText page, or an empty string."""
    lines = text.split("\n", 60)[:60]
    for line, next_line in pairwise(lines):
        if line.strip() and len(next_line) >= len(line.rstrip()) and set(next_line.strip()) in ({"="}, {"-"}, {"~"}):
            return line.strip()
    return ""


def _download_archive(edition: Edition, target: Path, backend_folder: Path) -> None:
    download_folder = target.with_suffix(".part")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    command += ["--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
    command += ["--no-binary", PROJECT, "--use-pep517", "--no-build-isolation"]
    command += ["--dest", str(download_folder), f"{PROJECT}=={edition.version}"]
    try:
        result = subprocess.run(  # noqa: S603 - all arguments are constants or our own paths
            command,
            env={**os.environ, "PYTHONPATH": str(backend_folder.resolve())},
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS_MAX,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise ManualUnavailable(f"could not download {PROJECT} {edition.version}: {error}") from error
    archives = sorted(download_folder.glob("*.tar.gz")) if result.returncode == 0 else []
    if not archives:
        reason = (result.stderr.strip().splitlines() or ["pip saved no archive"])[-1]
        raise ManualUnavailable(f"could not download {PROJECT} {edition.version}: {reason}")
    archives[0].replace(target)
    download_folder.rmdir()
