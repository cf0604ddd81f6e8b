"""Small Parquet data sets for the tests of the analyses, written with the schema of the export."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from state.model import Link, Sketch
from streams.analyses.current_pages import create_pages
from streams.analyses.sql_engine import DuckDb
from streams.export import hashes
from streams.export.schema import MANIFEST_FILE, SWEEP_TABLES, TABLES
from streams.settings import load
from streams.sketch.sketcher import Sketcher, compare_pairs, fingerprint, to_batch
from streams.urls import host_prefix, url_key

Row = dict[str, Any]
NOW = 1_700_000_000_000
CLUSTER_THRESHOLD = 0.5


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A captured page. A page without text has no document, like a redirect or an error."""

    url: str
    text: str = ""
    sweep: int = 1
    status: int = 200
    body: bytes = b""  # the raw bytes; if empty, the text
    links: Sequence[str | Link] = ()
    redirect: str | None = None
    time: int = 0  # ms since the epoch, UTC; 0: one day per sweep


def page(url: str, text: str = "", **fields: Any) -> Page:
    return Page(url=url, text=text, **fields)


def prose(*seed: object, words: int = 60) -> str:
    """Return text that is the same for the same seed, and unrelated for different seeds."""
    rng = random.Random(repr(seed))
    return " ".join(f"word{rng.randrange(5_000)}" for _ in range(words))


def page_hash(url: str) -> int:
    return hashes.page_hash(url_key(url))


def host_hash(url: str) -> int:
    return hashes.host_hash(url_key(url))


def write_data_set(folder: Path, pages: Iterable[Page], *, parts: int = 1, seed: int = 0) -> Path:
    """Write the data set of these pages to `folder`. Shuffle the rows of each table, and split them into part files.

    Documents whose resemblance is at least CLUSTER_THRESHOLD form clusters.
    """
    pages = sorted(pages, key=lambda page: page.sweep)
    tables = _Tables()
    for page in pages:
        tables.add(page)
    rng = random.Random(seed)
    _write(folder, "clusters", None, tables.clusters(), parts, rng)
    for sweep in sorted({page.sweep for page in pages}):
        for name in sorted(SWEEP_TABLES):
            _write(folder, name, sweep, tables.rows[name][sweep], parts, rng)
    _write_hosts(folder, pages, parts, rng)
    (folder / MANIFEST_FILE).write_text("{}")
    return folder


def open_data_set(folder: Path, sweep: int = 1) -> DuckDb:
    """Open a data set with the table `pages` as of a sweep."""
    engine = DuckDb(folder, memory_mib=256, threads=1)
    create_pages(engine, sweep)
    return engine


class _Tables:
    """The rows of the tables that have a folder per sweep."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[int, list[Row]]] = {name: defaultdict(list) for name in SWEEP_TABLES}
        self._sketcher = Sketcher(load().scheme)
        self._sketches: dict[int, Sketch] = {}
        self._link_lists: set[tuple[int, int]] = set()

    def add(self, page: Page) -> None:
        key = url_key(page.url)
        time = page.time or NOW + page.sweep * 86_400_000
        row: Row = {
            "page": hashes.page_hash(key),
            "path": hashes.path_hash(key),
            "host": hashes.host_hash(key),
            "url_key": key.decode(),
            "https": page.url.startswith("https:"),
            "sweep": page.sweep,
            "time": time,
            "status": page.status,
            "redirect": page.redirect,
        }
        if page.text:
            body = page.body or page.text.encode()
            row["document"] = self._add_document(page.text, page.sweep, time)
            row["fingerprint"] = hashes.id_hash(fingerprint(body))
        if page.links:
            row["link_list"] = self._add_links(row["page"], page)
        self.rows["captures"][page.sweep].append(row)

    def _add_document(self, text: str, sweep: int, time: int) -> int:
        sketch = self._sketcher.sketch(text)
        document = hashes.id_hash(sketch.document)
        if document not in self._sketches:
            self._sketches[document] = sketch
            self.rows["documents"][sweep].append(
                {
                    "document": document,
                    "id": sketch.document,
                    "first_seen": time,
                    "tokens": sketch.tokens,
                    "shingles": sketch.shingles,
                    "exponent": sketch.exponent,
                    "signature": sketch.signature.tobytes(),
                    "sample": sketch.sample.astype("<u4").tobytes(),
                }
            )
        return document

    def _add_links(self, source: int, page: Page) -> int:
        links = [link if isinstance(link, Link) else Link(target=url_key(link)) for link in page.links]
        link_list = hashes.url_hash(msgspec.msgpack.encode(links))
        if (source, link_list) not in self._link_lists:
            self._link_lists.add((source, link_list))
            self.rows["links"][page.sweep] += [
                {
                    "source": source,
                    "link_list": link_list,
                    "target": hashes.page_hash(link.target),
                    "target_host": hashes.host_hash(link.target),
                    "kind": int(link.kind),
                    "nofollow": link.nofollow,
                    "navigation": link.navigation,
                    "anchor": link.anchor,
                }
                for link in links
            ]
        return link_list

    def clusters(self) -> list[Row]:
        """Return the cluster of each document: connected components, identified by the smallest id."""
        documents = sorted(self._sketches, key=lambda document: self._sketches[document].document)
        batch = to_batch([self._sketches[document] for document in documents])
        pairs = np.array(list(combinations(range(len(documents)), 2)), dtype=np.int64).reshape(-1, 2)
        compared = compare_pairs(batch, batch, pairs[:, 0].copy(), pairs[:, 1].copy())
        roots = list(range(len(documents)))

        def root(node: int) -> int:
            while roots[node] != node:
                node = roots[node]
            return node

        for a, b in pairs[compared.resemblance >= CLUSTER_THRESHOLD].tolist():
            low, high = sorted((root(a), root(b)))
            roots[high] = low
        return [{"document": document, "cluster": documents[root(node)]} for node, document in enumerate(documents)]


def _write_hosts(folder: Path, pages: Collection[Page], parts: int, rng: random.Random) -> None:
    """Write the table `hosts`. Each part has its own share of a host's captures."""
    shares: Counter[tuple[str, int, int]] = Counter()
    for page in pages:
        shares[(host_prefix(url_key(page.url)).decode(), page.sweep, rng.randrange(parts))] += 1
    for part in range(parts):
        rows = [
            {"host": hashes.host_hash(host.encode()), "name": host, "sweep": sweep, "captures": captures}
            for (host, sweep, in_part), captures in shares.items()
            if in_part == part
        ]
        _write_part(folder / "hosts", "hosts", part, rows)


def _write(folder: Path, table: str, sweep: int | None, rows: list[Row], parts: int, rng: random.Random) -> None:
    rows = rng.sample(rows, len(rows))
    path = folder / table if sweep is None else folder / table / f"{sweep:08}"
    for part in range(parts):
        _write_part(path, table, part, rows[part::parts])


def _write_part(path: Path, table: str, part: int, rows: list[Row]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, TABLES[table]), path / f"part-{part:05}.parquet")
