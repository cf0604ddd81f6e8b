"""`state stats` and `state hot`: the size of the state, and which limits were reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

import msgspec

from state import meta, sweeps
from state.families import Family
from state.model import PREFIX_BYTES, SweepState
from state.rows import RowReader
from state.store import Store


class FamilyStats(msgspec.Struct, frozen=True):
    family: str
    keys_estimated: int
    bytes_on_disk: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    scheme: str
    documents: int
    sweeps: dict[str, int]  # by state
    families: list[FamilyStats]
    memory_bytes: dict[str, int]
    counters: dict[str, int]


class HotKey(msgspec.Struct, frozen=True):
    """A bucket or a sampled shingle that reached its limit, due to boilerplate text or a crowded cluster."""

    kind: str  # "bucket" or "sample"
    key: str  # hex
    documents: int


def stats(store: Store) -> Stats:
    """Return file sizes, RocksDB's estimates of the number of keys, and the exact number of documents."""
    counters = meta.counters(store)
    documents = counters.get("documents")
    if documents is None:  # in a Kafka partition, because only the embedded engine maintains this counter
        documents = sum(1 for _ in store.scan(Family.DOCUMENTS))
    states = Counter(sweep.state for sweep in sweeps.all_sweeps(store))
    return Stats(
        path=str(store.path),
        scheme=meta.read_scheme(store).id,
        documents=documents,
        sweeps={state.name.lower(): states[state] for state in SweepState},
        families=[
            FamilyStats(family.value, store.estimated_keys(family), store.bytes_on_disk(family)) for family in Family
        ],
        memory_bytes=store.bytes_in_memory(),
        counters=counters,
    )


def hot_keys(store: RowReader, *, postings_max: int, sample_postings_max: int) -> Iterator[HotKey]:
    """Yield the full buckets, and the sampled shingles that occur in more documents than a search reads."""
    for key, value in store.scan(Family.BANDS):
        if len(value) >= postings_max * PREFIX_BYTES:
            yield HotKey("bucket", key.hex(), len(value) // PREFIX_BYTES)
    for sample, rows in groupby(store.scan(Family.SAMPLES), key=lambda row: row[0][:-PREFIX_BYTES]):
        count = sum(1 for _ in rows)
        if count > sample_postings_max:
            yield HotKey("sample", sample.hex(), count)
