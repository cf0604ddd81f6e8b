"""`state stats` and `state hot`: what the state holds, what it costs, and which limits bit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec

from state import meta, sweeps
from state.families import Family
from state.model import PREFIX_BYTES, SweepState
from state.rows import RowReader
from state.store import Store


class FamilyStats(msgspec.Struct, frozen=True):
    """One column family."""

    family: str
    keys_estimated: int
    bytes_on_disk: int


class Stats(msgspec.Struct, frozen=True):
    """The whole state."""

    path: str
    scheme: str
    documents: int
    sweeps: dict[str, int]  # by state
    families: list[FamilyStats]
    memory_bytes: dict[str, int]
    counters: dict[str, int]


class Hot(msgspec.Struct, frozen=True):
    """A bucket or a sampled shingle that reached its limit: mechanical text, or a crowded cluster."""

    kind: str  # "bucket" or "sample"
    key: str  # hex
    documents: int


def stats(store: Store) -> Stats:
    """Sizes are of files on disk; keys are RocksDB's estimates, except that documents are counted.

    Those of a whole state the engine counts; a partition's are counted here, row by row.
    """
    families = [FamilyStats(f.value, store.estimated_keys(f), store.bytes_on_disk(f)) for f in Family]
    counters = meta.counters(store)
    held = [sweep.state.name.lower() for sweep in sweeps.all_sweeps(store)]
    return Stats(
        str(store.path),
        meta.read_scheme(store).id,
        counters["documents"] if "documents" in counters else sum(1 for _ in store.scan(Family.DOCUMENTS)),
        {state.name.lower(): held.count(state.name.lower()) for state in SweepState},
        families,
        store.bytes_in_memory(),
        counters,
    )


def hot(store: RowReader, *, postings_max: int, sample_postings_max: int) -> Iterator[Hot]:
    """Buckets that are full and sampled shingles that more documents hold than may take part."""
    for key, value in store.scan(Family.BANDS):
        if len(value) >= postings_max * PREFIX_BYTES:
            yield Hot("bucket", key.hex(), len(value) // PREFIX_BYTES)
    for sample, rows in groupby(store.scan(Family.SAMPLES), key=lambda row: row[0][:-PREFIX_BYTES]):
        count = sum(1 for _ in rows)
        if count > sample_postings_max:
            yield Hot("sample", sample.hex(), count)
