"""Deleting documents of full buckets posts the documents again that the buckets had dropped."""

from __future__ import annotations

import random
from pathlib import Path

from state import meta, sweeps
from state.check import check
from state.families import Family
from state.store import Store
from streams.forgetting import cancel_sweep, commit_removals
from tests.samples import page, settings, take, words
from tests.streams.forgetting.chains import chain


def test_deleting_all_documents_of_a_full_bucket_empties_it(store: Store, tmp_path: Path) -> None:
    """Postings that the bucket had dropped are not added again."""
    narrow = settings({"scheme": {"bands": 64, "rows": 1}, "limits": {"bucket_postings_max": 2}})
    alike = chain(random.Random(4), 6, changes=1)
    lines = [page(f"https://a.org/{n}", text) for n, text in enumerate(alike)]
    take(store, tmp_path / "a.jsonl", lines, "one", narrow)
    assert meta.counters(store)["bucket_postings_max"] > 0
    commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
    assert list(store.scan(Family.BANDS)) == []


def test_dropped_postings_are_added_again(store: Store, tmp_path: Path) -> None:
    """Near-duplicates of a page that a flood of copies had displaced from its buckets are detected again."""
    few = settings({"limits": {"bucket_postings_max": 2}})
    for seed in range(4):
        text = words(random.Random(seed), 150)
        url = f"https://a.org/{seed}"
        take(store, tmp_path / "a.jsonl", [page(url, " ".join(text))], f"good {seed}", few)
        flood = [page(f"https://spam.org/{seed}/{n}", " ".join([*text, f"more{n}"])) for n in range(12)]
        take(store, tmp_path / "b.jsonl", flood, "flood", few)
        before = meta.counters(store)["bucket_postings_max"]
        assert before > 0
        sweep = sweeps.named(store, "flood")
        assert sweep
        commit_removals(cancel_sweep(store, sweep), store.write)
        assert list(check(store, postings_max=2)) == []
        near = page(f"https://b.org/{seed}", " ".join([*text, "end"]))
        assert take(store, tmp_path / "c.jsonl", [near], f"next {seed}", few).near_duplicates == 1
