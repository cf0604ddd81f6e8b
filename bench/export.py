"""Measure the rate and the memory of `lostfound export`: rows per second of CPU time, per table.

    python -m bench.export [CAPTURES]

The state has synthetic pages in two sweeps: hosts of 500 pages, a document per page, clusters of three documents, and
30 links per page, of which the 20 in the navigation are the same on all pages of a host. It is written through the
store of the embedded engine.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import mmh3
import numpy as np

from bench.engine import temporary_folder
from bench.measure import Stopwatch, in_child, memory_mib
from state import meta, sweeps
from state.changes import Changes
from state.codecs import capture_row, document_row, link_chunk, link_list
from state.families import Family
from state.model import Capture, DocumentRow, Link, Sketch
from state.scheme import Scheme
from state.store import Store
from streams.export import data_set
from streams.export.data_set import Manifest, Workspace
from streams.export.duckdb_connection import SqlLimits, connect
from streams.export.partition_export import PartitionExport, capture_files

PAGES_PER_HOST = 500
NAVIGATION_LINKS, OWN_LINKS = 20, 10
CLUSTER_DOCUMENTS = 3
START = 1_700_000_000_000  # ms
_HOSTS_PER_WRITE = 20
_LIMITS = SqlLimits(memory_mib=512, threads=1)


def fill(path: Path, captures: int) -> None:
    """Create a state with about this many captures: two of each page."""
    rng = random.Random(2)
    scheme = Scheme()
    with Store(path) as store:
        meta.claim_scheme(store, scheme)
        opened = [sweeps.open_sweep(store, name, START) for name in ("first", "second")]
        hosts = max(1, captures // 2 // PAGES_PER_HOST)
        for first_host in range(0, hosts, _HOSTS_PER_WRITE):
            changes = Changes()
            for host in range(first_host, min(hosts, first_host + _HOSTS_PER_WRITE)):
                _add_host(changes, host, scheme, rng)
                for sweep in opened:
                    counts = {b"org,example,h%d)" % host: PAGES_PER_HOST}
                    sweeps.add_captures_per_host(store, changes, sweep.number, counts)
            store.write(changes)
        for sweep in opened:
            sweeps.commit(store, sweep, START)


def _add_host(changes: Changes, host: int, scheme: Scheme, rng: random.Random) -> None:
    keys = [b"org,example,h%d)/guide/chapter-%d/page-%d.html" % (host, n // 20, n) for n in range(PAGES_PER_HOST)]
    navigation = _add_chunk(changes, [Link(target=key, navigation=True, anchor="a chapter") for key in keys[:20]])
    documents = sorted(rng.randbytes(16) for _ in keys)
    for number, (key, document) in enumerate(zip(keys, documents, strict=True)):
        sketch = Sketch(
            document=document,
            signature=np.frombuffer(rng.randbytes(scheme.bins), np.uint8),
            sample=np.sort(np.frombuffer(rng.randbytes(4 * 48), np.uint32)),
            exponent=3,
            shingles=400,
            tokens=403,
        )
        changes.put(Family.DOCUMENTS, document, document_row.encode(DocumentRow(sketch, START)))
        if number % CLUSTER_DOCUMENTS:
            root = documents[number - number % CLUSTER_DOCUMENTS]
            changes.put(Family.PARENTS, document, root)
        targets = sorted(rng.sample(keys, OWN_LINKS))
        own = _add_chunk(changes, [Link(target=target, anchor=f"see page {host}") for target in targets])
        chunk_ids = [navigation, own]
        list_id = link_list.compute_list_id(chunk_ids)
        changes.put(Family.LINK_LISTS, link_list.encode_key(key, list_id), link_list.encode(chunk_ids))
        for chunk_id in chunk_ids:
            changes.put(Family.LINK_CHUNKS, link_chunk.page_key(chunk_id, key), b"")
        for sweep in (1, 2):
            capture = Capture(
                key=key,
                url=f"https://h{host}.example.org{key.decode().partition(')')[2]}",
                sweep=sweep,
                time=START + sweep,
                status=200,
                document=document,
                raw_fingerprint=mmh3.mmh3_x64_128_digest(key)[:8],
                links=list_id,
                tiebreaker=1,
            )
            changes.put(Family.CAPTURES, capture_row.key_of(capture), capture_row.encode(capture))


def _add_chunk(changes: Changes, links: list[Link]) -> bytes:
    value = link_chunk.encode(links)
    chunk_id = link_chunk.compute_chunk_id(value)
    changes.put(Family.LINK_CHUNKS, chunk_id, value)
    return chunk_id


def export_tables(state: str, folder: str) -> dict[str, Any]:
    """Export a state twice. Return the figures per table, the CPU seconds of both exports, and the peak memory."""
    _export(Path(state), Path(folder) / "warm-up", seconds={})  # load or compile the decoders
    seconds: dict[str, float] = {}
    manifest = _export(Path(state), Path(folder) / "export", seconds)
    again: dict[str, float] = {}
    _export(Path(state), Path(folder) / "export", again)
    rows = {table: sum(part.rows for part in manifest.parts if part.table == table) for table in seconds}
    sizes = {table: sum(part.bytes for part in manifest.parts if part.table == table) for table in seconds}
    return {
        "rows": rows,
        "bytes": sizes,
        "cpu_seconds": seconds,
        "cpu_seconds_unchanged": sum(again.values()),
        "peak_mib": memory_mib("VmHWM"),
    }


def _export(state: Path, folder: Path, seconds: dict[str, float]) -> Manifest:
    with (
        Store(state, writable=False) as store,
        data_set.prepare_export(folder) as (workspace, old),
        connect(_LIMITS, workspace.new_files) as connection,
    ):
        previous = {part.key: part for part in old.parts} if old else {}
        export = PartitionExport(workspace, store, sweeps=[1, 2], previous=previous)
        for table, write in _steps(export, connection, workspace):
            watch = Stopwatch()
            with watch.running():
                write()
            seconds[table] = watch.cpu_seconds
        manifest = Manifest(parts=export.parts)
        data_set.commit(workspace, manifest)
    return manifest


def _steps(
    export: PartitionExport, connection: duckdb.DuckDBPyConnection, workspace: Workspace
) -> Iterator[tuple[str, Any]]:
    """Yield each table and the function that writes it, in the order of the export."""
    yield "captures", export.write_captures
    yield "links", lambda: export.write_links(connection)
    yield "hosts", export.write_hosts
    yield "documents", lambda: export.write_documents(connection, capture_files(workspace, export.parts))
    yield "clusters", lambda: export.write_clusters(connection, [export.write_parents()])


def measure(captures: int) -> dict[str, Any]:
    with temporary_folder() as folder:
        fill(folder / "state", captures)
        return dict(in_child("bench.export:export_tables", state=str(folder / "state"), folder=str(folder)))


def main() -> None:
    figures = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    for table, rows in figures["rows"].items():
        seconds = figures["cpu_seconds"][table]
        rate, size = rows / seconds, figures["bytes"][table] / max(1, rows)
        print(f"{table:10} {rows:11,} rows {seconds:6.2f} s of CPU {rate:12,.0f} rows/s {size:6.1f} bytes per row")
    total_rows, total_seconds = sum(figures["rows"].values()), sum(figures["cpu_seconds"].values())
    print(
        f"{'all':10} {total_rows:11,} rows {total_seconds:6.2f} s of CPU {total_rows / total_seconds:12,.0f} rows/s"
    )
    print(f"again, if nothing has changed: {figures['cpu_seconds_unchanged']:.2f} s of CPU")
    print(f"peak memory {figures['peak_mib']:,} MiB")


if __name__ == "__main__":
    main()
