"""A site, and the rows that its data set should contain: computed from the view of a state, not by the export."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from state.model import Capture, DocumentRow, Link
from state.rows import RowReader
from state.view import View
from streams.export import hashes
from streams.export.schema import SWEEP_TABLES, TABLES, files_pattern
from streams.urls import host_prefix
from tests.samples import Line, html, missing, redirect, variant, words

HOSTS = ("a.example", "b.example", "www.c.example:8080")


def site(rng: random.Random, sweep: int, pages: int = 24) -> list[Line]:
    """Return pages with links, near-copies, redirects and errors. Sweeps share most pages."""
    lines: list[Line] = []
    for number in range(pages):
        host = HOSTS[number % 3]
        url = f"http{'s' * (number % 2)}://{host}/dir{number % 4}/{number}{'/index.html' * (number % 5 == 0)}"
        text = words(random.Random(number // 3 if number % 2 else number), 60)
        if (number + sweep) % 6 == 0:
            text = variant(rng, text)
        targets = [f"/dir{n % 4}/{n}" for n in range(number % 7)] + [f"http://x{number}.example/%7e", url]
        anchors = "".join(f'<a rel="nofollow" href="{target}">read {number} \u00e9</a>' for target in targets)
        nav = '<nav><a href="/">home</a><a href="/about">about</a></nav>'
        lines.append(
            html(url, f"{nav}<main><p>{' '.join(text)}</p>{anchors}</main>", time=1_000_000 * sweep + number)
        )
    lines.append(redirect("http://a.example/old", "http://a.example/n\u00e9w", time=sweep))
    lines.append(missing(f"http://b.example/gone{sweep}", time=sweep))
    return lines


def capture_row(capture: Capture) -> tuple[Any, ...]:
    redirect = capture.redirect
    return (
        hashes.page_hash(capture.key),
        hashes.path_hash(capture.key),
        hashes.host_hash(capture.key),
        capture.key.decode(),
        capture.url.startswith("https:"),
        capture.sweep,
        capture.time,
        capture.status,
        hashes.id_hash(capture.document) if capture.document else None,
        hashes.id_hash(capture.raw_fingerprint) if capture.raw_fingerprint else None,
        hashes.id_hash(capture.links) if capture.links else None,
        None if redirect is None else redirect.encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    )


def document_row(row: DocumentRow) -> tuple[Any, ...]:
    sketch = row.sketch
    return (
        hashes.id_hash(sketch.document),
        sketch.document,
        row.first_seen,
        sketch.tokens,
        sketch.shingles,
        sketch.exponent,
        sketch.signature.tobytes(),
        sketch.sample.astype("<u4").tobytes(),
    )


def link_row(source: bytes, list_id: bytes, link: Link) -> tuple[Any, ...]:
    return (
        hashes.page_hash(source),
        hashes.id_hash(list_id),
        hashes.page_hash(link.target),
        hashes.host_hash(link.target),
        int(link.kind),
        link.nofollow,
        link.navigation,
        link.anchor,
    )


def expected_rows(store: RowReader, sweep_names: set[str] | None = None) -> dict[tuple[str, int | None], set[Any]]:
    """Return the rows by table and sweep, of all sweeps or of those with these names."""
    view = View(store)
    sweeps = [s.number for s in view.sweeps() if sweep_names is None or s.name in sweep_names]
    rows: dict[tuple[str, int | None], set[Any]] = defaultdict(set)
    documents: dict[bytes, int] = {}
    lists: dict[tuple[bytes, bytes], int] = {}
    for capture in view.all_captures():
        if capture.sweep not in sweeps:
            continue
        rows["captures", capture.sweep].add(capture_row(capture))
        if capture.document:
            documents[capture.document] = min(documents.get(capture.document, capture.sweep), capture.sweep)
        if capture.links:
            key = capture.key, capture.links
            lists[key] = min(lists.get(key, capture.sweep), capture.sweep)
    for document, sweep in documents.items():
        stored = view.document(document)
        assert stored is not None
        rows["documents", sweep].add(document_row(stored))
        rows["clusters", None].add((hashes.id_hash(document), hashes.id_hash(view.root(document))))
    for (source, list_id), chunk_ids in view.link_lists(lists).items():
        chunks = view.link_chunks(chunk_ids)
        for chunk_id in chunk_ids:
            for link in chunks[chunk_id]:
                rows["links", lists[source, list_id]].add(link_row(source, list_id, link))
    for sweep in sweeps:
        for host, count in view.captures_per_host(sweep).items():
            assert host_prefix(host) == host
            rows["hosts", None].add((hashes.url_hash(host), host.decode(), sweep, count))
    return dict(rows)


def exported_rows(folder: Path) -> dict[tuple[str, int | None], set[Any]]:
    """Return the rows of a data set by table and sweep. Check that no row is repeated. Add up the shares of hosts."""
    shares: Counter[tuple[int, str, int]] = Counter()
    rows: dict[tuple[str, int | None], set[Any]] = defaultdict(set)
    for table, schema in TABLES.items():
        for path in folder.glob(files_pattern(table)):
            part = pq.ParquetFile(path).read()
            assert part.schema.equals(schema)
            part.validate(full=True)
            values = [tuple(row.values()) for row in part.to_pylist()]
            if table == "hosts":
                for host, name, sweep, captures in values:
                    shares[host, name, sweep] += captures
            key = table, int(path.parent.name) if table in SWEEP_TABLES else None
            assert len(set(values)) == len(values), "no row is repeated"
            assert table == "hosts" or not rows[key] & set(values), "partitions have different rows"
            rows[key] |= set(values)
    rows["hosts", None] = {(*key, captures) for key, captures in shares.items()}
    return {key: values for key, values in rows.items() if values}
