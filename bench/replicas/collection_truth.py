"""Build a crawl with known replicated collections: copies of javadoc collections, and unrelated javadoc pages.

Each target has six or seven copies: the newest version, an identical copy, older versions, a partial copy, and a copy
in another template. They are placed at random on the hosts. Half of the unrelated pages are on the same hosts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import mmh3
import msgspec
import zstandard

from bench.replicas import javadocs

HOSTS, SECOND_OLD_VERSIONS = 60, 8
PREFIXES = ("", "docs/{name}/", "javadoc/{name}-{number}/", "~user{number}/{name}/api/", "{name}/{number}/apidocs/")
FETCH_TIME = 1_700_000_000_000
_NAVIGATION = re.compile(
    r"<!-- =+ START OF (?:TOP|BOTTOM) NAVBAR.*?END OF (?:TOP|BOTTOM) NAVBAR[^>]*-->|<nav\b.*?</nav>", re.DOTALL
)
_BODY = re.compile(r"<body[^>]*>", re.IGNORECASE)


class Copy(NamedTuple):
    """A copy of a target; without a target, unrelated pages."""

    number: int
    target: str
    kind: str
    root: str  # URL prefix
    archive: Path


class Page(NamedTuple):
    copy: Copy
    url: str
    html: str


def copies(jars: Path, rng: random.Random) -> list[Copy]:
    """Choose the copies and where they are."""
    results: list[Copy] = []

    def add(target: str, kind: str, artifact: str, version: str, host: str) -> None:
        name = artifact.split(":")[1]
        used = {copy.root for copy in results}
        while True:
            prefix = rng.choice(PREFIXES[1:] if kind == "unrelated" else PREFIXES)
            root = f"https://{host}/{prefix.format(name=name, number=rng.randrange(100))}"
            if root not in used and (prefix or not any(other.startswith(root) for other in used)):
                break
            host = f"host{rng.randrange(HOSTS)}.example"
        results.append(Copy(len(results), target, kind, root, javadocs.archive(jars, artifact, version)))

    for position, (artifact, versions) in enumerate(javadocs.TARGETS.items()):
        newest = versions[-1]
        kinds = [("newest", newest), ("identical", newest), ("older", versions[0]), ("old", versions[-2])]
        kinds += [("partial", newest), ("template", newest)]
        kinds += [("old too", versions[-2])] * (position < SECOND_OLD_VERSIONS)
        for kind, version in kinds:
            add(artifact, kind, artifact, version, f"host{rng.randrange(HOSTS)}.example")
    for position, (artifact, (version,)) in enumerate(javadocs.UNRELATED.items()):
        host = f"host{rng.randrange(HOSTS)}.example" if position % 2 else f"other{position}.example"
        add("", "unrelated", artifact, version, host)
    return results


def pages(copy: Copy, rng: random.Random) -> Iterator[Page]:
    """Yield the pages of a copy."""
    change: Callable[[str], str] = _other_template(copy) if copy.kind == "template" else str
    absent = _absent_directories(copy, rng) if copy.kind == "partial" else set()
    for path, html in javadocs.read_pages(copy.archive):
        if path.rpartition("/")[0] not in absent and (copy.kind != "partial" or rng.random() < 0.9):
            yield Page(copy, copy.root + path, change(html))


def _absent_directories(copy: Copy, rng: random.Random) -> set[str]:
    """Choose directories with at most half of the pages."""
    paths = [path for path, _ in javadocs.read_pages(copy.archive)]
    directories = sorted({path.rpartition("/")[0] for path in paths} - {""})
    rng.shuffle(directories)
    absent: set[str] = set()
    for directory in directories[: len(directories) // 3]:
        if sum(path.rpartition("/")[0] in absent | {directory} for path in paths) < len(paths) / 2:
            absent.add(directory)
    return absent


def _other_template(copy: Copy) -> Callable[[str], str]:
    """Return a function that replaces the navigation of a page by that of the mirror."""
    home = copy.root.split("/", 3)[2]
    links = "".join(f'<a href="https://{home}/about/{n}.html">{home} section {n}</a> ' for n in range(6))
    header = f"<header><h1>Documentation mirrored at {home}</h1>{links}</header>"
    return lambda html: _BODY.sub(lambda body: body.group() + header, _NAVIGATION.sub("", html), count=1)


def write(jars: Path, folder: Path, seed: int, missing: float) -> None:
    """Write pages.jsonl.zst, and truth.tsv with the target, the copy and the URL of each page.

    A share `missing` of all pages is absent from the crawl, but not from the truth.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    chosen = copies(jars, rng)
    compressor = zstandard.ZstdCompressor(level=1)
    with (
        (folder / "pages.jsonl.zst").open("wb") as raw,
        compressor.stream_writer(raw) as output,
        (folder / "truth.tsv").open("w", encoding="utf-8") as truth,
    ):
        for copy in chosen:
            for page in pages(copy, rng):
                is_missing = mmh3.hash(page.url, seed, signed=False) < missing * 2**32
                truth.write(f"{copy.target}\t{copy.number}\t{page.url}\t{'missing' if is_missing else 'crawled'}\n")
                if not is_missing:
                    line = {"url": page.url, "html": page.html, "fetch_time": FETCH_TIME}
                    output.write(msgspec.json.encode(line) + b"\n")
