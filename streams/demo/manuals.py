"""Sweeps of a real site for the demo: one project's manual, edition by edition, out of its source archives.

The archives come from the package index by way of pip, side by side, and only their text files are read. Pages keep
one URL over all editions, as they would on a site that always shows the newest.
"""

from __future__ import annotations

import importlib.resources
import json
import os
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
SITE = "https://docs.djangoproject.com/en/stable/"
PAGE_BYTES_MAX = 4_000_000  # the largest page has 150 kB; what is far larger is no manual page
FETCHES_MAX = 3  # at once: unpacking keeps a core busy
FETCH_SECONDS_MAX = 180.0
NOT_PAGES = frozenset({"requirements.txt"})


class Offline(LostfoundError):
    """The archives cannot be fetched: no network, no index, or no pip."""


class Edition(NamedTuple):
    """One release of the manual; its day is the sweep's."""

    sweep: str
    version: str
    released: str  # ISO date


EDITIONS = (
    Edition("1.3", "1.3.7", "2013-02-20"),
    Edition("1.5", "1.5.12", "2015-01-02"),
    Edition("1.8", "1.8.19", "2018-03-06"),
    Edition("2.2", "2.2.28", "2022-04-11"),
    Edition("3.2", "3.2.25", "2024-03-04"),
    Edition("5.1", "5.1.4", "2024-12-04"),
)


def fetch(folder: Path, fetched: Callable[[Edition], None]) -> dict[Edition, Path]:
    """Source archives of all editions, from `folder` where they are there already; calls `fetched` after each.

    Raises Offline, with the package client's last word, when one cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hooks = _install_hooks(folder / "hooks")

    def one(edition: Edition) -> Path:
        target = folder / f"{PROJECT}-{edition.version}.tar.gz"
        if not target.exists():
            _download(edition, target, hooks)
        fetched(edition)
        return target

    with ThreadPoolExecutor(FETCHES_MAX) as pool:
        return dict(zip(EDITIONS, pool.map(one, EDITIONS), strict=True))


def write_sweep(edition: Edition, archive: Path, target: Path) -> int:
    """Write an edition's pages as JSONL and return how many there are; raises Offline for a broken archive."""
    rows = [
        {"url": url, "fetch_time": f"{edition.released}T00:00:00Z", "title": title(text), "text": text}
        for url, text in sorted(pages(archive))
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_suffix(".part")  # a file that is there is used from then on, so it is whole
    beside.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    beside.replace(target)
    return len(rows)


def pages(archive: Path) -> Iterator[tuple[str, str]]:
    """URL and text of every manual page in a source archive."""
    try:
        with tarfile.open(archive, "r:gz") as members:
            for member in members:
                _, _, path = member.name.partition("/docs/")
                if not path.endswith(".txt") or path in NOT_PAGES or not member.isfile():
                    continue
                if member.size <= PAGE_BYTES_MAX and (file := members.extractfile(member)):
                    yield url_of(path), file.read().decode("utf-8", "replace")
    except (tarfile.TarError, OSError, EOFError) as error:
        archive.unlink(missing_ok=True)
        raise Offline(f"{archive} is no complete archive: {error}", "it was removed: try again") from error


def url_of(path: str) -> str:
    """The URL of a manual page: `ref/csrf.txt` -> `.../ref/csrf/`, `ref/index.txt` -> `.../ref/`."""
    stem = path.removesuffix(".txt")
    stem = "" if stem == "index" else stem.removesuffix("/index")
    return SITE + (f"{stem}/" if stem else "")


def title(text: str) -> str:
    """The first heading of a reStructuredText page: a line that is underlined."""
    lines = text.split("\n", 60)[:60]
    for line, below in pairwise(lines):
        if line.strip() and len(below) >= len(line.rstrip()) and set(below.strip()) in ({"="}, {"-"}, {"~"}):
            return line.strip()
    return ""


def _install_hooks(folder: Path) -> Path:
    backend = importlib.resources.files("streams.demo").joinpath("archive_backend.py").read_bytes()
    package = folder / "setuptools"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_bytes(b"")
    (package / "build_meta.py").write_bytes(backend)
    return folder


def _download(edition: Edition, target: Path, hooks: Path) -> None:
    folder = target.with_suffix(".part")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += ["--no-binary", PROJECT, "--use-pep517", "--no-build-isolation", "--retries", "1", "--timeout", "20"]
    command += ["--dest", str(folder), f"{PROJECT}=={edition.version}"]
    try:
        done = subprocess.run(  # noqa: S603 - our own words only
            command,
            env={**os.environ, "PYTHONPATH": str(hooks.resolve())},
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS_MAX,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Offline(f"{PROJECT} {edition.version} could not be fetched: {error}") from error
    found = sorted(folder.glob("*.tar.gz")) if done.returncode == 0 else []
    if not found:
        last = (done.stderr.strip().splitlines() or ["no archive came"])[-1]
        raise Offline(f"{PROJECT} {edition.version} could not be fetched: {last}")
    found[0].replace(target)
    folder.rmdir()
