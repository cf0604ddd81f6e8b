"""Forgetting rebuilds only the affected clusters; a cancelled sweep leaves no trace."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state import analyses, meta, sweeps
from state.changes import Changes
from state.codecs import capture_row
from state.codecs.analysis_row import AnalysisKey
from state.errors import LostfoundError
from state.families import Family
from state.model import Capture, SweepState
from state.store import Store
from state.view import View
from streams import query
from streams.errors import InputError
from streams.forgetting import (
    Removal,
    RemovalTotals,
    cancel_sweep,
    commit_removals,
    finish_interrupted_removals,
    forget_document,
    forget_url,
    removal,
)
from streams.urls import url_key
from tests.samples import NOW, Line, begin_cancel, page, take
from tests.streams.forgetting.chains import CHAIN, IDS, SETTINGS, SKETCHER, URLS, chain, is_sound, rows_by_family


def cluster_of(store: Store, document: bytes) -> set[bytes]:
    view = View(store)
    return set(view.members(view.root(document)))


@pytest.fixture
def chained(store: Store, tmp_path: Path) -> Store:
    take(
        store,
        tmp_path / "a.jsonl",
        [page(u, t, NOW + n) for n, (u, t) in enumerate(zip(URLS, CHAIN, strict=True))],
        "one",
        SETTINGS,
    )
    assert cluster_of(store, IDS[0]) == set(IDS), "one chain is one cluster"
    return store


def test_deleting_a_link_splits_the_chain(chained: Store) -> None:
    edges = [(key[:16], key[16:]) for key, _ in chained.scan(Family.EDGES)]
    bridge = IDS[3]
    done = commit_removals(forget_document(chained, bridge), chained.write)
    assert done == RemovalTotals(1, 1, 6)
    remaining = [pair for pair in edges if bridge not in pair]
    assert [(key[:16], key[16:]) for key, _ in chained.scan(Family.EDGES)] == remaining
    for document in set(IDS) - {bridge}:
        reached = {document}
        while more := {x for pair in remaining for x in pair if set(pair) & reached} - reached:
            reached |= more
        assert cluster_of(chained, document) == reached
    assert is_sound(chained)


def test_deleting_a_root_gives_the_cluster_another_root(chained: Store) -> None:
    root = min(IDS)
    assert View(chained).root(IDS[0]) == root
    commit_removals(forget_document(chained, root), chained.write)
    assert is_sound(chained)
    assert all(View(chained).root(document) != root for document in IDS if document != root)


def test_only_the_affected_component_is_rebuilt(chained: Store, tmp_path: Path) -> None:
    other = chain(random.Random(2), 5)
    take(chained, tmp_path / "b.jsonl", [page(f"https://b.org/{n}", t) for n, t in enumerate(other)], "two", SETTINGS)
    before = rows_by_family(chained)
    assert commit_removals(forget_document(chained, SKETCHER.sketch(other[2]).document), chained.write).rejoined == 4
    after = rows_by_family(chained)
    mine = {key: value for key, value in before[Family.PARENTS].items() if key in IDS}
    assert mine
    assert {key: value for key, value in after[Family.PARENTS].items() if key in IDS} == mine


def test_deleted_pages_leave_no_rows(store: Store, tmp_path: Path) -> None:
    """The state equals one in which they were never ingested."""
    keep = [page("https://a.org/keep", "a page that stays where it is"), page(URLS[0], CHAIN[0])]
    with Store(tmp_path / "plain") as plain:
        take(plain, tmp_path / "keep.jsonl", keep, "one", SETTINGS)
        expected = rows_by_family(plain)
    take(
        store,
        tmp_path / "a.jsonl",
        [*keep, *(page(u, t) for u, t in zip(URLS[1:], CHAIN[1:], strict=True))],
        "one",
        SETTINGS,
    )
    for url in URLS[1:4]:
        assert commit_removals(forget_url(store, url_key(url)), store.write).documents == 1
    for document in IDS[4:]:
        assert commit_removals(forget_document(store, document), store.write).captures == 1
    assert rows_by_family(store) == expected
    assert sweeps.all_sweeps(store)[0].captures == 2
    assert meta.counters(store)["documents"] == 2
    assert meta.counters(store)["documents_forgotten"] == 6


def test_a_document_remains_until_its_last_url_is_deleted(store: Store, tmp_path: Path) -> None:
    text = CHAIN[0]
    lines = [
        page("https://a.org/1", text, NOW),
        page("https://a.org/2", text, NOW + 5),
        page("https://b.org/", text, NOW + 9),
    ]
    take(store, tmp_path / "a.jsonl", lines, "one", SETTINGS)
    assert commit_removals(forget_url(store, url_key("https://a.org/1")), store.write) == RemovalTotals(1, 0, 0)
    row = View(store).document(IDS[0])
    assert row
    assert row.first_seen == NOW + 5
    assert is_sound(store)
    assert commit_removals(forget_url(store, url_key("https://b.org/")), store.write).documents == 0
    assert commit_removals(forget_url(store, url_key("https://a.org/2")), store.write).documents == 1
    assert is_sound(store)
    rows = rows_by_family(store)
    assert not any(rows[family] for family in Family if family in rows and family is not Family.SWEEPS)


def test_deleting_an_unknown_url_or_document_changes_nothing(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path / "a.jsonl", [page(URLS[0], CHAIN[0])], "one", SETTINGS)
    before = rows_by_family(store)
    assert commit_removals(forget_url(store, url_key("https://unknown.org/")), store.write) == RemovalTotals(0, 0, 0)
    assert commit_removals(forget_document(store, bytes(16)), store.write) == RemovalTotals(0, 0, 0)
    assert rows_by_family(store) == before


def test_a_deleted_document_can_be_ingested_again(chained: Store, tmp_path: Path) -> None:
    before = rows_by_family(chained)
    commit_removals(forget_document(chained, IDS[2]), chained.write)
    take(chained, tmp_path / "b.jsonl", [page(URLS[2], CHAIN[2], NOW + 2)], "two", SETTINGS)
    after = rows_by_family(chained)
    assert cluster_of(chained, IDS[2]) == set(IDS)
    for family in (Family.DOCUMENTS, Family.BANDS, Family.SAMPLES, Family.WORDS, Family.EDGES, Family.LOCATIONS):
        assert after[family] == before[family]
    assert is_sound(chained)


class TestCancelling:
    LINES: tuple[list[Line], list[Line]] = (
        [page(u, t, NOW + n) for n, (u, t) in enumerate(zip(URLS[:4], CHAIN[:4], strict=True))],
        [
            page(u, t, NOW + 100 + n)
            for n, (u, t) in enumerate(zip(URLS[2:6], [*CHAIN[2:3], *CHAIN[4:]], strict=False))
        ],
    )

    def test_leaves_no_trace(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        before = rows_by_family(store)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", SETTINGS)
        sweep = sweeps.named(store, "two")
        assert sweep
        done = commit_removals(cancel_sweep(store, sweep), store.write)
        assert (done.captures, done.documents) == (4, 3)
        after = rows_by_family(store)
        for family in before:
            if family is not Family.SWEEPS:
                assert after[family] == before[family], family
        assert [s.name for s in View(store).sweeps()] == ["one"]
        assert sweeps.captures_per_host(store, 2) == {}
        assert is_sound(store)

    def test_cancelling_the_first_sweep_keeps_the_pages_of_later_ones(self, store: Store, tmp_path: Path) -> None:
        with Store(tmp_path / "plain") as plain:
            take(plain, tmp_path / "b.jsonl", self.LINES[1], "two", SETTINGS)
            expected = rows_by_family(plain)
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", SETTINGS)
        sweep = sweeps.named(store, "one")
        assert sweep
        commit_removals(cancel_sweep(store, sweep), store.write)
        rows = rows_by_family(store)
        for family in (Family.DOCUMENTS, Family.LOCATIONS, Family.BANDS, Family.EDGES, Family.WORDS, Family.TEXTS):
            assert rows[family] == expected[family], family
        assert is_sound(store)

    @pytest.mark.parametrize("writes", range(1, 7))
    def test_an_interrupted_cancellation_is_hidden_and_finished_by_the_next_writer(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
    ) -> None:
        monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 1)
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        before = rows_by_family(store)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", SETTINGS)
        sweep = sweeps.named(store, "two")
        assert sweep
        with monkeypatch.context() as patch:
            patch.setattr(Store, "write", failing(Store.write, writes))
            with pytest.raises(StopIteration):
                commit_removals(cancel_sweep(store, sweep), store.write)
        if writes == 1:
            assert [s.name for s in View(store).sweeps()] == ["one", "two"], "nothing was done"
            return
        view = View(store)
        assert [s.name for s in view.sweeps()] == ["one"]
        assert {c.sweep for c in view.all_captures()} == {1}
        assert is_sound(store)
        commit_removals(finish_interrupted_removals(store), store.write)
        after = rows_by_family(store)
        for family in before:
            if family is not Family.SWEEPS:
                assert after[family] == before[family], family
        assert sweeps.all_sweeps(store)[1].state is SweepState.CANCELLED
        assert is_sound(store)

    @pytest.mark.parametrize("writer", ["ingest", "forget"])
    def test_every_writer_first_finishes_cancellations(self, store: Store, tmp_path: Path, writer: str) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", SETTINGS)
        sweep = sweeps.named(store, "two")
        assert sweep
        begin_cancel(store, sweep)
        if writer == "ingest":
            take(store, tmp_path / "c.jsonl", [page("https://c.org/", "words of another page")], "three", SETTINGS)
        else:
            commit_removals(forget_url(store, url_key(URLS[0])), store.write)
        assert sweeps.all_sweeps(store)[1].state is SweepState.CANCELLED
        assert {key.sweep for key in View(store).all_captures()} <= {1, 3}
        assert is_sound(store)

    def test_documents_of_a_cancelling_sweep_only_are_not_resolved(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", SETTINGS)
        begin_cancel(store, sweeps.all_sweeps(store)[1])
        view = View(store)
        assert query.resolve(view, IDS[2].hex()) == IDS[2]
        with pytest.raises(InputError, match="no document has an id"):
            query.resolve(view, IDS[4].hex())

    def test_cancelling_twice_is_refused(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
        with pytest.raises(LostfoundError, match="is cancelled and cannot be cancelled"):
            commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)

    def test_the_name_is_free_again(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
        done = take(store, tmp_path / "a.jsonl", self.LINES[0], "one", SETTINGS)
        assert (done.status, done.new, done.committed) == ("ingested", 4, True)
        assert is_sound(store)


def failing(write: Any, at: int) -> Any:
    """Return a write function that fails at the n-th call, before it writes."""
    done = 0

    def written(self: Store, changes: Changes, *, sync: bool = False) -> None:
        nonlocal done
        done += 1
        if done == at:
            raise StopIteration
        write(self, changes, sync=sync)

    return written


def test_a_document_at_many_urls_is_removed_in_linear_time(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each removal of a cancellation decodes only the captures that it removes."""
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 5)
    lines = [page(f"https://a.org/{n}/p{n}", CHAIN[0], NOW + n) for n in range(100)]
    take(store, tmp_path / "a.jsonl", lines, "one", SETTINGS)
    decode, decoded = capture_row.decode, 0

    def counted(row: bytes, value: bytes) -> Capture:
        nonlocal decoded
        decoded += 1
        return decode(row, value)

    monkeypatch.setattr(capture_row, "decode", counted)
    assert commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write).captures == 100
    assert decoded <= 5 * len(lines)
    rows = rows_by_family(store)
    assert not any(rows[family] for family in rows if family is not Family.SWEEPS)


def test_every_removal_deletes_the_results_of_analyses(store: Store, tmp_path: Path) -> None:
    """Results contain URLs."""
    lines = [page(url, text) for url, text in zip(URLS, CHAIN, strict=True)]
    take(store, tmp_path / "a.jsonl", lines, "one", SETTINGS)
    take(store, tmp_path / "b.jsonl", lines[:1], "two", SETTINGS)
    removals: list[Callable[[], Iterator[Removal]]] = [
        lambda: forget_url(store, url_key(URLS[1])),
        lambda: forget_document(store, IDS[2]),
        lambda: cancel_sweep(store, sweeps.all_sweeps(store)[0]),
    ]
    for remove in removals:
        changes = Changes()
        analyses.put(store, changes, AnalysisKey(2, "mirrors", "paths"), [b"{}"], origin="00")
        store.write(changes)
        commit_removals(remove(), store.write)
        assert list(store.scan(Family.ANALYSES)) == []
        assert is_sound(store)
