"""Stored results are read as they were written, replaced as a whole, and deleted together."""

from __future__ import annotations

from collections.abc import Sequence

from state import analyses
from state.changes import Changes
from state.codecs.analysis_row import CHUNK_BYTES, AnalysisKey
from state.families import Family
from state.rows import RowStore
from tests.memory import MemoryStore

MIRRORS, REPLICAS = AnalysisKey(3, "mirrors", "paths"), AnalysisKey(3, "replicas", "heads")
LINES = [b"%d" % n * (CHUNK_BYTES // 3) for n in range(8)]


def put(store: RowStore, key: AnalysisKey, lines: Sequence[bytes], origin: str = "a", **counters: int) -> None:
    changes = Changes()
    analyses.put(store, changes, key, lines, origin=origin, counters=counters)
    store.write(changes)


def delete(store: RowStore, prefix: bytes = b"") -> None:
    changes = Changes()
    analyses.delete(store, changes, prefix)
    store.write(changes)


def test_results_are_read_as_written() -> None:
    store = MemoryStore()
    put(store, MIRRORS, LINES, limit=2)
    put(store, REPLICAS, [])
    assert list(analyses.lines(store, MIRRORS)) == LINES
    assert analyses.header(store, MIRRORS) == analyses.Header(origin="a", chunks=4, results=8, counters={"limit": 2})
    assert analyses.header(store, REPLICAS) == analyses.Header(origin="a", chunks=0, results=0)
    assert analyses.header(store, AnalysisKey(2, "mirrors", "paths")) is None


def test_new_results_replace_all_chunks() -> None:
    store = MemoryStore()
    put(store, MIRRORS, LINES)
    put(store, REPLICAS, LINES)
    put(store, MIRRORS, LINES[:1], origin="b")
    assert list(analyses.lines(store, MIRRORS)) == LINES[:1]
    assert list(analyses.lines(store, REPLICAS)) == LINES
    assert len(store.rows[Family.ANALYSES]) == 2 + 5


def test_the_newest_sweep_with_results_is_found() -> None:
    store = MemoryStore()
    assert analyses.newest_key(store, "mirrors", "paths") is None
    for sweep in (2, 700, 5):
        put(store, AnalysisKey(sweep, "mirrors", "paths"), LINES)
    put(store, AnalysisKey(900, "mirrors", "paper"), LINES)
    assert analyses.newest_key(store, "mirrors", "paths") == AnalysisKey(700, "mirrors", "paths")


def test_all_results_are_deleted() -> None:
    store = MemoryStore()
    put(store, MIRRORS, LINES)
    put(store, REPLICAS, LINES)
    delete(store)
    assert not store.rows[Family.ANALYSES]
