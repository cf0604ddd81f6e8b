"""Sizes, counters and hot buckets of a small sound state."""

from __future__ import annotations

import json

import msgspec

from state import meta
from state.families import Family
from state.stats import hot_keys, stats
from state.store import Store


def test_stats_match_the_state(sound_store: Store) -> None:
    result = stats(sound_store)
    assert result.documents == len(list(sound_store.scan(Family.DOCUMENTS)))
    assert result.scheme == meta.read_scheme(sound_store).id
    assert result.sweeps == {"open": 1, "committed": 2, "cancelling": 0, "cancelled": 0}
    assert [family.family for family in result.families] == [family.value for family in Family]
    assert result.counters["pages"] == 22 + 23 + 2
    assert {"bucket_postings_max", "candidates_max"} <= result.counters.keys()
    json.loads(msgspec.json.encode(result))


def test_hot_buckets_and_samples_are_listed(sound_store: Store) -> None:
    assert list(hot_keys(sound_store, postings_max=1_000, sample_postings_max=1_000)) == []
    full = list(hot_keys(sound_store, postings_max=3, sample_postings_max=2))
    sizes = {key.hex(): len(value) // 5 for key, value in sound_store.scan(Family.BANDS)}
    assert {h.key: h.documents for h in full if h.kind == "bucket"} == {k: n for k, n in sizes.items() if n >= 3}
    samples = [h for h in full if h.kind == "sample"]
    assert samples
    assert all(h.documents > 2 for h in samples)
