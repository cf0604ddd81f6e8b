"""The embedded engine against a model: all that the state should hold follows from the captures that are left.

Documents are short, so that sketches hold every shingle, and the scheme has so many bands of one row that no pair at
the threshold is missed: edges and clusters must equal brute force over plain sets of shingles.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from state import meta, sweeps
from state.changes import Changes
from state.check import check
from state.codecs import edge_row
from state.families import Family
from state.model import SweepState
from state.store import Store
from state.sweeps import commit
from state.view import View
from streams import query
from streams.forgetting import apply, cancel_sweep, finish_cancelling, forget_document, forget_url, removal
from streams.settings import Settings
from streams.sketch.sketcher import Sketcher
from streams.urls import host_prefix, url_key
from tests.samples import NOW, Line, missing, page, redirect, settings, take

THRESHOLD = 0.5
SETTINGS: Settings = settings(
    {
        "scheme": {"bands": 64, "rows": 1, "sample_max": 256},
        "policy": {"threshold": THRESHOLD},
        "limits": {"candidates_max": 10_000, "bucket_postings_max": 10_000},
        "ingest": {"batch_pages": 3},
    }
)
SKETCHER = Sketcher(SETTINGS.scheme)


def _texts() -> list[str]:
    """Chains of texts: neighbours are alike, the ends of a chain are not."""
    rng = random.Random(5)
    found = []
    for _ in range(5):
        text = [f"w{rng.randrange(40)}" for _ in range(rng.randint(8, 30))]
        for _ in range(5):
            found.append(" ".join(text))
            text = list(text)
            for _ in range(rng.randint(1, 2)):
                text[rng.randrange(len(text))] = f"w{rng.randrange(40)}"
    return found


TEXTS = _texts()
IDS = {text: SKETCHER.sketch(text).document for text in TEXTS}
SHINGLES = {IDS[text]: {tuple(text.split()[i : i + 4]) for i in range(len(text.split()) - 3)} for text in TEXTS}
URLS = [f"https://{host}/{path}" for host in ("a.example.org", "b.example.org", "c.example.net") for path in "pqrs"]


SPELLED = [f"https://a.example.org/dir/{letter}-page" for letter in ("é", "%C3%A9", "e%CC%81")]


def resemblance(a: bytes, b: bytes) -> float:
    return len(SHINGLES[a] & SHINGLES[b]) / len(SHINGLES[a] | SHINGLES[b])


CandidatePair = tuple[bytes, bytes]


class Held(NamedTuple):
    """A capture, as far as the model knows it."""

    url: str
    sweep: int
    time: int
    status: int
    document: bytes | None


class Engine(RuleBasedStateMachine):
    """Rules are what a user can do; invariants hold after each."""

    wanted = SETTINGS

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lostfound-model-"))
        self.store = Store(self.folder / "state", self.wanted.store)
        self.captures: set[Held] = set()
        self.said: dict[Held, tuple[str, str]] = {}  # title and text
        self.clock = NOW
        self.files = 0
        self.letters = 0
        self.sweep = "sweep 0"

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule()
    def next_sweep(self) -> None:
        self.sweep = f"sweep {len(sweeps.all_sweeps(self.store))}"

    def _number(self) -> int:
        held = sweeps.named(self.store, self.sweep)
        assert held is not None
        return held.number

    def _take(self, lines: list[Line], *, keep_open: bool = True) -> None:
        self.files += 1
        path = self.folder / f"{self.files}.jsonl"
        done = take(self.store, path, lines, self.sweep, self.wanted, keep_open=keep_open)
        assert done.status == "ingested"
        assert done.pages == len(lines)
        assert done.committed is not keep_open
        before = list(self.store.scan(Family.CAPTURES))
        again = take(self.store, path, lines, self.sweep, self.wanted, keep_open=True)
        assert again.status == "nothing to do"
        assert list(self.store.scan(Family.CAPTURES)) == before
        number = self._number()
        for line in lines:
            status = line.get("fetch_status", 200)
            document = IDS.get(line.get("text", "").lower())
            held = Held(line["url"], number, line["fetch_time"], status, document)
            self.captures.add(held)
            self.said[held] = line.get("title", ""), line.get("text", "")
        if not keep_open:
            self.next_sweep()

    def _times(self, count: int) -> list[int]:
        self.clock += 1_000 * count
        return [self.clock + 1_000 * n for n in range(count)]

    @rule(pairs=st.lists(st.tuples(st.sampled_from(URLS), st.sampled_from(TEXTS)), min_size=1, max_size=8))
    def take_pages(self, pairs: list[tuple[str, str]]) -> None:
        times = self._times(len(pairs))
        self._take([page(url, text, time) for (url, text), time in zip(pairs, times, strict=True)])

    @rule(pairs=st.lists(st.tuples(st.sampled_from(URLS), st.sampled_from(TEXTS)), min_size=1, max_size=4))
    def take_late_pages(self, pairs: list[tuple[str, str]]) -> None:
        """Pages fetched before all others, handed in now."""
        lines = [page(url, text, NOW - 10_000_000 + 100 * self.files + n) for n, (url, text) in enumerate(pairs)]
        self._take(lines)

    @rule(url=st.sampled_from(URLS), text=st.sampled_from(TEXTS))
    def take_twice(self, url: str, text: str) -> None:
        """One page twice in an input."""
        line = page(url, text, self._times(1)[0])
        self.files += 1
        take(self.store, self.folder / f"{self.files}.jsonl", [line, line], self.sweep, self.wanted, keep_open=True)
        held = Held(url, self._number(), line["fetch_time"], 200, IDS[text])
        self.captures.add(held)
        self.said[held] = "", text

    @rule(
        urls=st.lists(st.sampled_from([*URLS, *SPELLED]), min_size=1, max_size=12, unique=True),
        text=st.sampled_from(TEXTS),
        late=st.booleans(),
        data=st.data(),
    )
    def take_one_document(self, urls: list[str], text: str, late: bool, data: st.DataObject) -> None:
        """At many URLs, some of them two spellings of one, under other titles and in other capitals."""
        times = self._times(len(urls))
        if late:
            times = [NOW - 20_000_000 + 100 * self.files + n for n in range(len(urls))]
        styles = [data.draw(st.sampled_from([str.lower, str.upper, str.title])) for _ in urls]
        titles = [data.draw(st.sampled_from(["", "One", "Two"])) for _ in urls]
        rows = zip(urls, styles, times, titles, strict=True)
        self._take([page(url, style(text), time, title=title) for url, style, time, title in rows])

    @rule(url=st.sampled_from(URLS), text=st.sampled_from(TEXTS))
    def take_http_and_https(self, url: str, text: str) -> None:
        """A redirect and its target, which share a key and a second."""
        time = self._times(1)[0]
        self._take([redirect(url.replace("https:", "http:"), url, time), page(url, text, time)])

    @precondition(lambda self: self.captures)
    @rule(data=st.data())
    def take_unchanged(self, data: st.DataObject) -> None:
        """All URLs as they are; ends the sweep."""
        last: dict[str, Held] = {}
        for held in sorted(self.captures, key=lambda c: (c.sweep, c.time, c.status < 300)):
            last[held.url] = held
        texts = {document: text for text, document in IDS.items()}
        alive = [held for held in last.values() if held.document]
        times = self._times(len(alive))
        lines = [page(c.url, texts[c.document or b""], t) for c, t in zip(alive, times, strict=True)]
        if lines:
            self._take(lines, keep_open=False)

    @rule(url=st.sampled_from(URLS), to=st.sampled_from(URLS), status=st.sampled_from([301, 302, 404, 410, 500]))
    def take_nothing(self, url: str, to: str, status: int) -> None:
        time = self._times(1)[0]
        self._take([redirect(url, to, time, status) if status < 400 else missing(url, time, status)])

    @rule(url=st.sampled_from(URLS))
    def take_without_words(self, url: str) -> None:
        time = self._times(1)[0]
        self._take([page(url, " ... ", time)])
        self.letters += 1

    @precondition(lambda self: sweeps.named(self.store, self.sweep) is not None)
    @rule()
    def commit_sweep(self) -> None:
        held = sweeps.named(self.store, self.sweep)
        assert held is not None
        done = commit(self.store, held, 1)
        assert done.captures == sum(c.sweep == held.number for c in self.captures)
        self.next_sweep()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        living = [s for s in sweeps.all_sweeps(self.store) if s.state is not SweepState.CANCELLED]
        if not living:
            return
        chosen = data.draw(st.sampled_from(living))
        gone = {held for held in self.captures if held.sweep == chosen.number}
        assert apply(cancel_sweep(self.store, chosen), self.store.write).captures == len(gone)
        self.captures -= gone

    @rule(data=st.data(), writes=st.integers(1, 6))
    def cancel_in_two_goes(self, data: st.DataObject, writes: int) -> None:
        """Cut short at one of its writes; the next who writes goes on."""
        living = [s for s in sweeps.all_sweeps(self.store) if s.state is not SweepState.CANCELLED]
        if not living:
            return
        chosen = data.draw(st.sampled_from(living))
        write, done = Store.write, 0

        def failing(store: Store, changes: Changes, *, sync: bool = False) -> None:
            nonlocal done
            done += 1
            if done > writes:
                raise InterruptedError
            write(store, changes, sync=sync)

        with patch.object(Store, "write", failing), suppress(InterruptedError):
            apply(cancel_sweep(self.store, chosen), self.store.write)
        self.captures = {held for held in self.captures if held.sweep != chosen.number}
        found = {c.sweep for c in View(self.store).all_captures()}
        assert chosen.number not in found
        self.reopen()
        apply(finish_cancelling(self.store), self.store.write)

    @rule(url=st.sampled_from([*URLS, *SPELLED]))
    def forget_a_url(self, url: str) -> None:
        gone = {held for held in self.captures if url_key(held.url) == url_key(url)}
        assert apply(forget_url(self.store, url_key(url)), self.store.write).captures == len(gone)
        self.captures -= gone

    @rule(text=st.sampled_from(TEXTS))
    def forget_a_document(self, text: str) -> None:
        gone = {held for held in self.captures if held.document == IDS[text]}
        done = apply(forget_document(self.store, IDS[text]), self.store.write)
        assert (done.captures, done.documents) == (len(gone), bool(gone))
        self.captures -= gone

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store(self.folder / "state", self.wanted.store)

    @invariant()
    def is_sound(self) -> None:
        assert list(check(self.store, postings_max=self.wanted.limits.bucket_postings_max)) == []

    @invariant()
    def holds_the_captures(self) -> None:
        found = [Held(c.url, c.sweep, c.time, c.status, c.document) for c in View(self.store).all_captures()]
        assert len(found) == len(set(found))
        assert set(found) == self.captures
        for sweep in sweeps.all_sweeps(self.store):
            mine = [held for held in self.captures if held.sweep == sweep.number]
            counts = {host: n for host, n in sweeps.hosts(self.store, sweep.number).items() if n}
            assert sum(counts.values()) == len(mine)
            assert set(counts) == {host_prefix(url_key(held.url)) for held in mine}
            if sweep.state is SweepState.COMMITTED:
                assert sweep.captures == len(mine)

    @invariant()
    def holds_the_documents(self) -> None:
        seen: dict[bytes, int] = {}
        places: dict[bytes, int] = {}
        for held in self.captures:
            if held.document:
                seen[held.document] = min(held.time, seen.get(held.document, held.time))
                place = held.document + url_key(held.url)
                places[place] = min(held.time, places.get(place, held.time))
        view = View(self.store)
        rows = [view.document(key) for key, _ in self.store.scan(Family.DOCUMENTS)]
        assert {row.sketch.document: row.first_seen for row in rows if row} == seen
        located = {key: int.from_bytes(value, "big") for key, value in self.store.scan(Family.LOCATIONS)}
        assert located == places
        assert meta.counters(self.store).get("documents", 0) == len(seen)
        assert {key for key, _ in self.store.scan(Family.TEXTS)} == set(seen)

    @invariant()
    def says_what_pages_said(self) -> None:
        """Titles and texts are those of captures that are left, or what all of them say."""
        said: dict[bytes, set[tuple[str, str]]] = {}
        for held in self.captures:
            if held.document:
                said.setdefault(held.document, set()).add(self.said[held])
        view = View(self.store)
        for document, pages in said.items():
            (found,) = view.titles_and_texts([document])
            assert found in {*pages, ("", next(iter(pages))[1].lower())}

    @invariant()
    def holds_the_clusters(self) -> None:
        documents = {held.document for held in self.captures if held.document}
        alike = {(a, b): resemblance(a, b) for a, b in combinations(sorted(documents), 2)}
        edges = [edge_row.decode(*row) for row in self.store.scan(Family.EDGES)]
        found = {(pair.a, pair.b): pair.resemblance for pair in edges}
        expected = {pair: share for pair, share in alike.items() if share >= THRESHOLD}
        self.has_the_edges(found, expected)
        clusters = {frozenset(c.documents): set(c.urls) for c in query.clusters(View(self.store), min_size=1)}
        assert set(clusters) == {frozenset(d.hex() for d in group) for group in components(documents, set(found))}
        for group, urls in clusters.items():
            assert {url_key(url) for url in urls} == {
                url_key(held.url) for held in self.captures if held.document and held.document.hex() in group
            }

    def has_the_edges(self, found: dict[CandidatePair, float], expected: dict[CandidatePair, float]) -> None:
        assert found == pytest.approx(expected, abs=1e-4)

    @invariant()
    def letters_are_written(self) -> None:
        path = self.folder / "state" / "dead-letters.jsonl"
        assert (path.read_bytes().count(b"\n") if path.exists() else 0) == self.letters


class LimitedEngine(Engine):
    """With limits that bite: edges may be missing, and clusters are those of the edges that are there."""

    wanted = settings(
        {
            "scheme": {"bands": 64, "rows": 1, "sample_max": 256},
            "policy": {"threshold": THRESHOLD, "keep_texts": True, "index_find": False},
            "limits": {"candidates_max": 2, "bucket_postings_max": 2},
            "ingest": {"batch_pages": 3},
        }
    )

    def has_the_edges(self, found: dict[CandidatePair, float], expected: dict[CandidatePair, float]) -> None:
        assert found.keys() <= expected.keys()
        assert found == pytest.approx({pair: expected[pair] for pair in found}, abs=1e-4)
        if found.keys() < expected.keys():
            counters = meta.counters(self.store)
            assert counters["candidates_max"] + counters["bucket_postings_max"] > 0


def components(nodes: set[bytes], pairs: set[tuple[bytes, bytes]]) -> list[set[bytes]]:
    """By brute force."""
    groups = [{node} for node in nodes]
    for a, b in pairs:
        joined = [group for group in groups if a in group or b in group]
        groups = [group for group in groups if group not in joined] + [set[bytes]().union(*joined)]
    return groups


@pytest.mark.parametrize("machine", [Engine, LimitedEngine])
def test_engine_equals_model(machine: type[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 3)
    run_state_machine_as_test(machine, settings=hypothesis_settings(max_examples=25, stateful_step_count=30))


@pytest.mark.long
@pytest.mark.parametrize("machine", [Engine, LimitedEngine])
def test_engine_equals_model_for_long(machine: type[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 3)
    run_state_machine_as_test(machine, settings=hypothesis_settings(max_examples=300, stateful_step_count=60))
