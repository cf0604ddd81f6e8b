"""Forgetting rebuilds what it touched and nothing else; a cancelled sweep leaves no trace."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from state import meta, sweeps
from state.changes import Changes
from state.check import check
from state.codecs import capture_row
from state.errors import LostfoundError
from state.families import Family
from state.model import Capture, SweepState
from state.store import Store
from state.view import View
from streams import query
from streams.errors import InputError
from streams.forgetting import Forgotten, apply, cancel_sweep, finish_cancelling, forget_document, forget_url, removal
from streams.sketch.sketcher import Sketcher
from streams.urls import url_key
from tests.samples import NOW, Line, begin_cancel, page, settings, take, variant, words

# So many bands of one row that no pair at the threshold is missed.
WANTED = settings({"scheme": {"bands": 64, "rows": 1}, "policy": {"threshold": 0.5}})
SKETCHER = Sketcher(WANTED.scheme)


def chain(rng: random.Random, length: int, changes: int = 4) -> list[str]:
    """Versions of a text, each like the one before and less like those further back."""
    text = words(rng, 60)
    found = [" ".join(text)]
    for _ in range(length - 1):
        text = variant(rng, text, changes)
        found.append(" ".join(text))
    return found


CHAIN = chain(random.Random(1), 7)
IDS = [SKETCHER.sketch(text).document for text in CHAIN]
URLS = [f"https://a.org/{n}" for n in range(7)]


def facts(store: Store) -> dict[Family, dict[bytes, bytes]]:
    return {family: dict(store.scan(family)) for family in Family if family is not Family.META}


def sound(store: Store) -> bool:
    return list(check(store, postings_max=32)) == []


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
        WANTED,
    )
    assert cluster_of(store, IDS[0]) == set(IDS), "one chain is one cluster"
    return store


def test_forgetting_a_link_splits_the_chain(chained: Store) -> None:
    edges = [(key[:16], key[16:]) for key, _ in chained.scan(Family.EDGES)]
    bridge = IDS[3]
    done = apply(forget_document(chained, bridge), chained.write)
    assert done == Forgotten(1, 1, 6)
    left = [pair for pair in edges if bridge not in pair]
    assert [(key[:16], key[16:]) for key, _ in chained.scan(Family.EDGES)] == left
    for document in set(IDS) - {bridge}:
        reached = {document}
        while more := {x for pair in left for x in pair if set(pair) & reached} - reached:
            reached |= more
        assert cluster_of(chained, document) == reached
    assert sound(chained)


def test_forgetting_a_root_gives_the_cluster_another(chained: Store) -> None:
    root = min(IDS)
    assert View(chained).root(IDS[0]) == root
    apply(forget_document(chained, root), chained.write)
    assert sound(chained)
    assert all(View(chained).root(document) != root for document in IDS if document != root)


def test_only_the_touched_component_is_rebuilt(chained: Store, tmp_path: Path) -> None:
    other = chain(random.Random(2), 5)
    take(chained, tmp_path / "b.jsonl", [page(f"https://b.org/{n}", t) for n, t in enumerate(other)], "two", WANTED)
    before = facts(chained)
    assert apply(forget_document(chained, SKETCHER.sketch(other[2]).document), chained.write).rejoined == 4
    after = facts(chained)
    mine = {key: value for key, value in before[Family.PARENTS].items() if key in IDS}
    assert mine
    assert {key: value for key, value in after[Family.PARENTS].items() if key in IDS} == mine


def test_what_is_forgotten_leaves_no_row(store: Store, tmp_path: Path) -> None:
    """As if it had never been there."""
    keep = [page("https://a.org/keep", "a page that stays where it is"), page(URLS[0], CHAIN[0])]
    with Store(tmp_path / "plain") as plain:
        take(plain, tmp_path / "keep.jsonl", keep, "one", WANTED)
        expected = facts(plain)
    take(
        store,
        tmp_path / "a.jsonl",
        [*keep, *(page(u, t) for u, t in zip(URLS[1:], CHAIN[1:], strict=True))],
        "one",
        WANTED,
    )
    for url in URLS[1:4]:
        assert apply(forget_url(store, url_key(url)), store.write).documents == 1
    for document in IDS[4:]:
        assert apply(forget_document(store, document), store.write).captures == 1
    assert facts(store) == expected
    assert sweeps.all_sweeps(store)[0].captures == 2
    assert meta.counters(store)["documents"] == 2
    assert meta.counters(store)["documents_forgotten"] == 6


def test_a_document_at_two_urls_stays_while_one_holds_it(store: Store, tmp_path: Path) -> None:
    text = CHAIN[0]
    lines = [
        page("https://a.org/1", text, NOW),
        page("https://a.org/2", text, NOW + 5),
        page("https://b.org/", text, NOW + 9),
    ]
    take(store, tmp_path / "a.jsonl", lines, "one", WANTED)
    assert apply(forget_url(store, url_key("https://a.org/1")), store.write) == Forgotten(1, 0, 0)
    row = View(store).document(IDS[0])
    assert row
    assert row.first_seen == NOW + 5
    assert sound(store)
    assert apply(forget_url(store, url_key("https://b.org/")), store.write).documents == 0
    assert apply(forget_url(store, url_key("https://a.org/2")), store.write).documents == 1
    assert sound(store)
    left = facts(store)
    assert not any(left[family] for family in Family if family in left and family is not Family.SWEEPS)


@pytest.mark.parametrize("keep_texts", [True, False])
def test_words_of_a_site_go_with_the_last_url_there(store: Store, tmp_path: Path, keep_texts: bool) -> None:
    """Whether they can be made again from a kept text or have to be searched."""
    wanted = settings({"policy": {"keep_texts": keep_texts}})
    text = CHAIN[0]
    lines = [
        page("https://a.org/cookbook/routing.html", text),
        page("https://a.org/book/forms.html", text),
        page("https://b.net/mirror.html", text),
        page("https://a.org/other.html", CHAIN[6]),
    ]
    take(store, tmp_path / "a.jsonl", lines, "one", wanted)
    sites = {key[:4] for key, _ in store.scan(Family.WORDS)}
    assert len(sites) == 2
    everywhere = {key for key, _ in store.scan(Family.WORDS) if key[8:] == IDS[0][:5]}
    apply(forget_url(store, url_key(lines[0]["url"])), store.write)
    left = {key for key, _ in store.scan(Family.WORDS) if key[8:] == IDS[0][:5]}
    assert (left < everywhere) == keep_texts, "only words of its path go, when they can be told"
    apply(forget_url(store, url_key(lines[2]["url"])), store.write)
    assert len({key[:4] for key, _ in store.scan(Family.WORDS)}) == 1
    apply(forget_url(store, url_key(lines[1]["url"])), store.write)
    assert {key[8:] for key, _ in store.scan(Family.WORDS)} == {IDS[6][:5]}
    assert sound(store)


def test_words_that_were_made_otherwise_are_searched(store: Store, tmp_path: Path) -> None:
    """A text cut at another `tokens_max` has other words than the kept text gives."""
    text = " ".join(words(random.Random(3), 900))
    take(
        store,
        tmp_path / "a.jsonl",
        [page("https://a.org/long", text)],
        "one",
        settings({"limits": {"tokens_max": 300}}),
    )
    assert list(store.scan(Family.WORDS))
    apply(forget_url(store, url_key("https://a.org/long")), store.write)
    assert list(store.scan(Family.WORDS)) == []


def test_forgetting_what_is_not_there(store: Store, tmp_path: Path) -> None:
    take(store, tmp_path / "a.jsonl", [page(URLS[0], CHAIN[0])], "one", WANTED)
    before = facts(store)
    assert apply(forget_url(store, url_key("https://nobody.org/")), store.write) == Forgotten(0, 0, 0)
    assert apply(forget_document(store, bytes(16)), store.write) == Forgotten(0, 0, 0)
    assert facts(store) == before


def test_a_document_that_went_may_come_again(chained: Store, tmp_path: Path) -> None:
    before = facts(chained)
    apply(forget_document(chained, IDS[2]), chained.write)
    take(chained, tmp_path / "b.jsonl", [page(URLS[2], CHAIN[2], NOW + 2)], "two", WANTED)
    after = facts(chained)
    assert cluster_of(chained, IDS[2]) == set(IDS)
    for family in (Family.DOCUMENTS, Family.BANDS, Family.SAMPLES, Family.WORDS, Family.EDGES, Family.LOCATIONS):
        assert after[family] == before[family]
    assert sound(chained)


class TestCancelling:
    LINES: tuple[list[Line], list[Line]] = (
        [page(u, t, NOW + n) for n, (u, t) in enumerate(zip(URLS[:4], CHAIN[:4], strict=True))],
        [
            page(u, t, NOW + 100 + n)
            for n, (u, t) in enumerate(zip(URLS[2:6], [*CHAIN[2:3], *CHAIN[4:]], strict=False))
        ],
    )

    def test_leaves_no_trace(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        before = facts(store)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", WANTED)
        sweep = sweeps.named(store, "two")
        assert sweep
        done = apply(cancel_sweep(store, sweep), store.write)
        assert (done.captures, done.documents) == (4, 3)
        after = facts(store)
        for family in before:
            if family is not Family.SWEEPS:
                assert after[family] == before[family], family
        assert [s.name for s in View(store).sweeps()] == ["one"]
        assert sweeps.hosts(store, 2) == {}
        assert sound(store)

    def test_of_the_first_sweep_leaves_what_later_ones_saw(self, store: Store, tmp_path: Path) -> None:
        with Store(tmp_path / "plain") as plain:
            take(plain, tmp_path / "b.jsonl", self.LINES[1], "two", WANTED)
            expected = facts(plain)
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", WANTED)
        sweep = sweeps.named(store, "one")
        assert sweep
        apply(cancel_sweep(store, sweep), store.write)
        found = facts(store)
        for family in (Family.DOCUMENTS, Family.LOCATIONS, Family.BANDS, Family.EDGES, Family.WORDS, Family.TEXTS):
            assert found[family] == expected[family], family
        assert sound(store)

    @pytest.mark.parametrize("writes", range(1, 7))
    def test_cut_short_anywhere_is_hidden_at_once_and_finished_by_the_next_writer(
        self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
    ) -> None:
        monkeypatch.setattr(removal, "CAPTURES_A_BATCH", 1)
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        before = facts(store)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", WANTED)
        sweep = sweeps.named(store, "two")
        assert sweep
        with monkeypatch.context() as patch:
            patch.setattr(Store, "write", failing(Store.write, writes))
            with pytest.raises(StopIteration):
                apply(cancel_sweep(store, sweep), store.write)
        if writes == 1:
            assert [s.name for s in View(store).sweeps()] == ["one", "two"], "nothing was done"
            return
        view = View(store)
        assert [s.name for s in view.sweeps()] == ["one"]
        assert {c.sweep for c in view.all_captures()} == {1}
        assert sound(store)
        apply(finish_cancelling(store), store.write)
        after = facts(store)
        for family in before:
            if family is not Family.SWEEPS:
                assert after[family] == before[family], family
        assert sweeps.all_sweeps(store)[1].state is SweepState.CANCELLED
        assert sound(store)

    @pytest.mark.parametrize("writer", ["ingest", "forget"])
    def test_every_writer_finishes_it_first(self, store: Store, tmp_path: Path, writer: str) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", WANTED)
        sweep = sweeps.named(store, "two")
        assert sweep
        begin_cancel(store, sweep)
        if writer == "ingest":
            take(store, tmp_path / "c.jsonl", [page("https://c.org/", "words of another page")], "three", WANTED)
        else:
            apply(forget_url(store, url_key(URLS[0])), store.write)
        assert sweeps.all_sweeps(store)[1].state is SweepState.CANCELLED
        assert {key.sweep for key in View(store).all_captures()} <= {1, 3}
        assert sound(store)

    def test_what_only_it_held_has_no_id(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        take(store, tmp_path / "b.jsonl", self.LINES[1], "two", WANTED)
        begin_cancel(store, sweeps.all_sweeps(store)[1])
        view = View(store)
        assert query.resolve(view, IDS[2].hex()) == IDS[2]
        with pytest.raises(InputError, match="no document has an id"):
            query.resolve(view, IDS[4].hex())

    def test_twice_is_refused(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        apply(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
        with pytest.raises(LostfoundError, match="is cancelled and cannot be cancelled"):
            apply(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)

    def test_the_name_is_free_again(self, store: Store, tmp_path: Path) -> None:
        take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        apply(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
        done = take(store, tmp_path / "a.jsonl", self.LINES[0], "one", WANTED)
        assert (done.status, done.new, done.committed) == ("ingested", 4, True)
        assert sound(store)


def failing(write: Any, at: int) -> Any:
    """A write that fails the n-th time, before it writes."""
    done = 0

    def written(self: Store, changes: Changes, *, sync: bool = False) -> None:
        nonlocal done
        done += 1
        if done == at:
            raise StopIteration
        write(self, changes, sync=sync)

    return written


def test_a_full_bucket_loses_all_that_it_held(store: Store, tmp_path: Path) -> None:
    """Those that it could not hold go with the others, and bring nothing back."""
    narrow = settings({"scheme": {"bands": 64, "rows": 1}, "limits": {"bucket_postings_max": 2}})
    alike = chain(random.Random(4), 6, changes=1)
    lines = [page(f"https://a.org/{n}", text) for n, text in enumerate(alike)]
    take(store, tmp_path / "a.jsonl", lines, "one", narrow)
    assert meta.counters(store)["bucket_postings_max"] > 0
    apply(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
    assert list(store.scan(Family.BANDS)) == []


def test_those_that_were_crowded_out_are_posted_again(store: Store, tmp_path: Path) -> None:
    """A page that a flood of copies pushed out of its buckets meets its near-duplicates once they are gone."""
    few = settings({"limits": {"bucket_postings_max": 2}})
    for seed in range(4):
        text = words(random.Random(seed), 150)
        url = f"https://a.org/{seed}"
        take(store, tmp_path / "a.jsonl", [page(url, " ".join(text))], f"good {seed}", few)
        flood = [page(f"https://spam.org/{seed}/{n}", " ".join([*text, f"more{n}"])) for n in range(12)]
        take(store, tmp_path / "b.jsonl", flood, "flood", few)
        before = meta.counters(store)["bucket_postings_max"]
        assert before > 0
        wanted = sweeps.named(store, "flood")
        assert wanted
        apply(cancel_sweep(store, wanted), store.write)
        assert list(check(store, postings_max=2)) == []
        near = page(f"https://b.org/{seed}", " ".join([*text, "end"]))
        assert take(store, tmp_path / "c.jsonl", [near], f"next {seed}", few).near_duplicates == 1


class TestKeptTexts:
    """Pages with the same words, and other titles and capitals, are one document."""

    TEXT = "A Page that every Crawl finds, with its own capitals and signs."
    URLS = ("https://a.org/x", "https://spam.org/y")

    def held(self, store: Store) -> tuple[str, str]:
        view = View(store)
        both = view.titles_and_texts([SKETCHER.sketch(self.TEXT).document])[0]
        assert both is not None
        return both

    def take(self, store: Store, tmp_path: Path, number: int, sweep: str, title: str, text: str = TEXT) -> None:
        line = page(self.URLS[number], text, NOW + number, title=title)
        take(store, tmp_path / f"{sweep}.jsonl", [line], sweep, WANTED)

    @pytest.mark.parametrize("n", range(6))
    def test_a_cancelled_sweep_leaves_no_title(self, store: Store, tmp_path: Path, n: int) -> None:
        self.take(store, tmp_path, 0, "one", "Good title")
        before = facts(store)[Family.TEXTS]
        self.take(store, tmp_path, 1, "two", f"BUY PILLS {n}", self.TEXT.upper())
        cancelled = sweeps.named(store, "two")
        assert cancelled
        apply(cancel_sweep(store, cancelled), store.write)
        assert facts(store)[Family.TEXTS] == before
        assert self.held(store) == ("Good title", self.TEXT)

    @pytest.mark.parametrize("forget", [True, False])
    def test_the_first_page_leaves_the_words_that_others_say_too(
        self, store: Store, tmp_path: Path, forget: bool
    ) -> None:
        self.take(store, tmp_path, 0, "one", "SECRET", self.TEXT.upper())
        self.take(store, tmp_path, 1, "two", "Good title")
        if forget:
            apply(forget_url(store, url_key(self.URLS[0])), store.write)
        else:
            apply(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
        assert self.held(store) == ("", SKETCHER.canonical(self.TEXT))
        assert sound(store)
        self.take(store, tmp_path, 0, "three", "Another title")
        assert self.held(store) == ("Another title", self.TEXT), "a page that comes says it anew"

    def test_what_another_page_was_served_alike_stays(self, store: Store, tmp_path: Path) -> None:
        self.take(store, tmp_path, 0, "one", "Title")
        self.take(store, tmp_path, 1, "two", "Title")
        apply(forget_url(store, url_key(self.URLS[0])), store.write)
        with Store(tmp_path / "plain") as plain:
            self.take(plain, tmp_path, 1, "two", "Title")
            assert facts(store)[Family.TEXTS] == facts(plain)[Family.TEXTS]

    def test_the_same_text_under_another_title_is_not_the_same(self, store: Store, tmp_path: Path) -> None:
        self.take(store, tmp_path, 0, "one", "SECRET")
        self.take(store, tmp_path, 1, "two", "Title")
        apply(forget_url(store, url_key(self.URLS[0])), store.write)
        assert self.held(store)[0] == ""

    def test_what_is_cut_off_is_no_ones_but_the_page_s(self, store: Store, tmp_path: Path) -> None:
        short = settings({"limits": {"tokens_max": 5}})
        for number, end in enumerate(("of mine", "of yours")):
            line = page(self.URLS[number], f"words that all pages have {end}", NOW + number)
            take(store, tmp_path / "a.jsonl", [line], f"{number}", short)
        apply(forget_url(store, url_key(self.URLS[0])), store.write)
        ((_, value),) = store.scan(Family.TEXTS)
        assert View(store).decode_text(value) == ("", "words that all pages have")


def test_one_spelling_of_a_url_goes_and_another_stays(store: Store, tmp_path: Path) -> None:
    """Both were taken in, each with a page's name of its own."""
    spelled = ("https://a.org/dir/é-parent", "https://a.org/dir/%C3%A9-parent")
    take(store, tmp_path / "a.jsonl", [page(spelled[0], CHAIN[0], NOW)], "one")
    other = [page(spelled[1], CHAIN[0].upper(), NOW - 5)]
    take(store, tmp_path / "b.jsonl", other, "two")
    with Store(tmp_path / "plain") as plain:
        take(plain, tmp_path / "b.jsonl", other, "two")
        expected = facts(plain)[Family.WORDS]
    apply(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write)
    assert facts(store)[Family.WORDS] == expected
    apply(forget_url(store, url_key(spelled[0])), store.write)
    assert facts(store)[Family.WORDS] == {}
    assert sound(store)


def test_a_document_at_many_urls_goes_in_one_walk(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch of a cancellation looks at the captures that go with it, and not at all the others."""
    monkeypatch.setattr(removal, "CAPTURES_A_BATCH", 5)
    lines = [page(f"https://a.org/{n}/p{n}", CHAIN[0], NOW + n) for n in range(100)]
    take(store, tmp_path / "a.jsonl", lines, "one", WANTED)
    decode, decoded = capture_row.decode, 0

    def counted(row: bytes, value: bytes) -> Capture:
        nonlocal decoded
        decoded += 1
        return decode(row, value)

    monkeypatch.setattr(capture_row, "decode", counted)
    assert apply(cancel_sweep(store, sweeps.all_sweeps(store)[0]), store.write).captures == 100
    assert decoded <= 5 * len(lines)
    left = facts(store)
    assert not any(left[family] for family in left if family is not Family.SWEEPS)
