"""Test the embedded engine against a model, which derives the whole state from the captures that were not removed.

Documents are short, so that sketches contain every shingle. The scheme has enough bands of one row to miss no pair at
the threshold. So edges and clusters must equal brute force over sets of shingles.
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
from streams.forgetting import (
    cancel_sweep,
    commit_removals,
    finish_interrupted_removals,
    forget_document,
    forget_url,
    removal,
)
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
    """Return chains of texts: neighbours are similar, the ends of a chain are not."""
    rng = random.Random(5)
    texts = []
    for _ in range(5):
        text = [f"w{rng.randrange(40)}" for _ in range(rng.randint(8, 30))]
        for _ in range(5):
            texts.append(" ".join(text))
            text = list(text)
            for _ in range(rng.randint(1, 2)):
                text[rng.randrange(len(text))] = f"w{rng.randrange(40)}"
    return texts


TEXTS = _texts()
IDS = {text: SKETCHER.sketch(text).document for text in TEXTS}
SHINGLES = {IDS[text]: {tuple(text.split()[i : i + 4]) for i in range(len(text.split()) - 3)} for text in TEXTS}
URLS = [f"https://{host}/{path}" for host in ("a.example.org", "b.example.org", "c.example.net") for path in "pqrs"]


SPELLINGS = [f"https://a.example.org/dir/{letter}-page" for letter in ("é", "%C3%A9", "e%CC%81")]


def resemblance(a: bytes, b: bytes) -> float:
    return len(SHINGLES[a] & SHINGLES[b]) / len(SHINGLES[a] | SHINGLES[b])


DocumentPair = tuple[bytes, bytes]


class ModelCapture(NamedTuple):
    """The fields of a capture that the model predicts."""

    url: str
    sweep: int
    time: int
    status: int
    document: bytes | None


class Engine(RuleBasedStateMachine):
    """Rules are the actions of users; the invariants hold after every action."""

    engine_settings = SETTINGS

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="lostfound-model-"))
        self.store = Store(self.folder / "state", self.engine_settings.store)
        self.captures: set[ModelCapture] = set()
        self.titles_and_texts: dict[ModelCapture, tuple[str, str]] = {}  # title and text
        self.clock = NOW
        self.files = 0
        self.dead_letters = 0
        self.sweep = "sweep 0"

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule()
    def next_sweep(self) -> None:
        self.sweep = f"sweep {len(sweeps.all_sweeps(self.store))}"

    def _number(self) -> int:
        sweep = sweeps.named(self.store, self.sweep)
        assert sweep is not None
        return sweep.number

    def _take(self, lines: list[Line], *, keep_open: bool = True) -> None:
        self.files += 1
        path = self.folder / f"{self.files}.jsonl"
        summary = take(self.store, path, lines, self.sweep, self.engine_settings, keep_open=keep_open)
        assert summary.status == "ingested"
        assert summary.pages == len(lines)
        assert summary.committed is not keep_open
        before = list(self.store.scan(Family.CAPTURES))
        repeated = take(self.store, path, lines, self.sweep, self.engine_settings, keep_open=True)
        assert repeated.status == "nothing to do"
        assert list(self.store.scan(Family.CAPTURES)) == before
        number = self._number()
        for line in lines:
            status = line.get("fetch_status", 200)
            document = IDS.get(line.get("text", "").lower())
            capture = ModelCapture(line["url"], number, line["fetch_time"], status, document)
            self.captures.add(capture)
            self.titles_and_texts[capture] = line.get("title", ""), line.get("text", "")
        if not keep_open:
            self.next_sweep()

    def _times(self, count: int) -> list[int]:
        """Return times later than all that were returned before: the model does not distinguish captures by title."""
        first = self.clock + 1_000
        self.clock += 1_000 * count
        return [first + 1_000 * n for n in range(count)]

    @rule(pairs=st.lists(st.tuples(st.sampled_from(URLS), st.sampled_from(TEXTS)), min_size=1, max_size=8))
    def take_pages(self, pairs: list[tuple[str, str]]) -> None:
        times = self._times(len(pairs))
        self._take([page(url, text, time) for (url, text), time in zip(pairs, times, strict=True)])

    @rule(pairs=st.lists(st.tuples(st.sampled_from(URLS), st.sampled_from(TEXTS)), min_size=1, max_size=4))
    def take_late_pages(self, pairs: list[tuple[str, str]]) -> None:
        """Ingest pages that were fetched before all others."""
        lines = [page(url, text, NOW - 10_000_000 + 100 * self.files + n) for n, (url, text) in enumerate(pairs)]
        self._take(lines)

    @rule(url=st.sampled_from(URLS), text=st.sampled_from(TEXTS))
    def take_a_page_twice(self, url: str, text: str) -> None:
        """Ingest an input that contains a page twice."""
        line = page(url, text, self._times(1)[0])
        self.files += 1
        take(
            self.store,
            self.folder / f"{self.files}.jsonl",
            [line, line],
            self.sweep,
            self.engine_settings,
            keep_open=True,
        )
        capture = ModelCapture(url, self._number(), line["fetch_time"], 200, IDS[text])
        self.captures.add(capture)
        self.titles_and_texts[capture] = "", text

    @rule(
        urls=st.lists(st.sampled_from([*URLS, *SPELLINGS]), min_size=1, max_size=12, unique=True),
        text=st.sampled_from(TEXTS),
        late=st.booleans(),
        data=st.data(),
    )
    def take_one_document_at_many_urls(self, urls: list[str], text: str, late: bool, data: st.DataObject) -> None:
        """Ingest a document at many URLs, some of them equivalent, with different titles and capitalization."""
        times = self._times(len(urls))
        if late:
            times = [NOW - 20_000_000 + 100 * self.files + n for n in range(len(urls))]
        styles = [data.draw(st.sampled_from([str.lower, str.upper, str.title])) for _ in urls]
        titles = [data.draw(st.sampled_from(["", "One", "Two"])) for _ in urls]
        rows = zip(urls, styles, times, titles, strict=True)
        self._take([page(url, style(text), time, title=title) for url, style, time, title in rows])

    @rule(url=st.sampled_from(URLS), text=st.sampled_from(TEXTS))
    def take_http_and_https(self, url: str, text: str) -> None:
        """Ingest a redirect and its target with the same URL key and the same second."""
        time = self._times(1)[0]
        self._take([redirect(url.replace("https:", "http:"), url, time), page(url, text, time)])

    @precondition(lambda self: self.captures)
    @rule(data=st.data())
    def take_all_pages_again(self, data: st.DataObject) -> None:
        """Ingest the current page of every URL again, and commit the sweep."""
        last: dict[str, ModelCapture] = {}
        for capture in sorted(self.captures, key=lambda c: (c.sweep, c.time, c.status < 300)):
            last[capture.url] = capture
        texts = {document: text for text, document in IDS.items()}
        current = [capture for capture in last.values() if capture.document]
        times = self._times(len(current))
        lines = [page(c.url, texts[c.document or b""], t) for c, t in zip(current, times, strict=True)]
        if lines:
            self._take(lines, keep_open=False)

    @rule(url=st.sampled_from(URLS), to=st.sampled_from(URLS), status=st.sampled_from([301, 302, 404, 410, 500]))
    def take_an_error_or_redirect(self, url: str, to: str, status: int) -> None:
        time = self._times(1)[0]
        self._take([redirect(url, to, time, status) if status < 400 else missing(url, time, status)])

    @rule(url=st.sampled_from(URLS))
    def take_a_page_without_words(self, url: str) -> None:
        time = self._times(1)[0]
        self._take([page(url, " ... ", time)])
        self.dead_letters += 1

    @precondition(lambda self: sweeps.named(self.store, self.sweep) is not None)
    @rule()
    def commit_sweep(self) -> None:
        sweep = sweeps.named(self.store, self.sweep)
        assert sweep is not None
        committed_sweep = commit(self.store, sweep, 1)
        assert committed_sweep.captures == sum(c.sweep == sweep.number for c in self.captures)
        self.next_sweep()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        cancellable = [s for s in sweeps.all_sweeps(self.store) if s.state is not SweepState.CANCELLED]
        if not cancellable:
            return
        chosen = data.draw(st.sampled_from(cancellable))
        removed = {capture for capture in self.captures if capture.sweep == chosen.number}
        assert commit_removals(cancel_sweep(self.store, chosen), self.store.write).captures == len(removed)
        self.captures -= removed

    @rule(data=st.data(), writes=st.integers(1, 6))
    def cancel_with_an_interruption(self, data: st.DataObject, writes: int) -> None:
        """Interrupt a cancellation at one of its writes; the next writer finishes it."""
        cancellable = [s for s in sweeps.all_sweeps(self.store) if s.state is not SweepState.CANCELLED]
        if not cancellable:
            return
        chosen = data.draw(st.sampled_from(cancellable))
        write, write_count = Store.write, 0

        def write_or_fail(store: Store, changes: Changes, *, sync: bool = False) -> None:
            nonlocal write_count
            write_count += 1
            if write_count > writes:
                raise InterruptedError
            write(store, changes, sync=sync)

        with patch.object(Store, "write", write_or_fail), suppress(InterruptedError):
            commit_removals(cancel_sweep(self.store, chosen), self.store.write)
        self.captures = {capture for capture in self.captures if capture.sweep != chosen.number}
        sweeps_left = {c.sweep for c in View(self.store).all_captures()}
        assert chosen.number not in sweeps_left
        self.reopen()
        commit_removals(finish_interrupted_removals(self.store), self.store.write)

    @rule(url=st.sampled_from([*URLS, *SPELLINGS]))
    def forget_a_url(self, url: str) -> None:
        removed = {capture for capture in self.captures if url_key(capture.url) == url_key(url)}
        assert commit_removals(forget_url(self.store, url_key(url)), self.store.write).captures == len(removed)
        self.captures -= removed

    @rule(text=st.sampled_from(TEXTS))
    def forget_a_document(self, text: str) -> None:
        removed = {capture for capture in self.captures if capture.document == IDS[text]}
        result = commit_removals(forget_document(self.store, IDS[text]), self.store.write)
        assert (result.captures, result.documents) == (len(removed), bool(removed))
        self.captures -= removed

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store(self.folder / "state", self.engine_settings.store)

    @invariant()
    def is_sound(self) -> None:
        assert list(check(self.store, postings_max=self.engine_settings.limits.bucket_postings_max)) == []

    @invariant()
    def holds_the_captures(self) -> None:
        captures = [
            ModelCapture(c.url, c.sweep, c.time, c.status, c.document) for c in View(self.store).all_captures()
        ]
        assert len(captures) == len(set(captures))
        assert set(captures) == self.captures
        for sweep in sweeps.all_sweeps(self.store):
            sweep_captures = [capture for capture in self.captures if capture.sweep == sweep.number]
            counts = {host: n for host, n in sweeps.captures_per_host(self.store, sweep.number).items() if n}
            assert sum(counts.values()) == len(sweep_captures)
            assert set(counts) == {host_prefix(url_key(capture.url)) for capture in sweep_captures}
            if sweep.state is SweepState.COMMITTED:
                assert sweep.captures == len(sweep_captures)

    @invariant()
    def holds_the_documents(self) -> None:
        first_seen: dict[bytes, int] = {}
        locations: dict[bytes, int] = {}
        for capture in self.captures:
            if capture.document:
                first_seen[capture.document] = min(capture.time, first_seen.get(capture.document, capture.time))
                location = capture.document + url_key(capture.url)
                locations[location] = min(capture.time, locations.get(location, capture.time))
        view = View(self.store)
        rows = [view.document(key) for key, _ in self.store.scan(Family.DOCUMENTS)]
        assert {row.sketch.document: row.first_seen for row in rows if row} == first_seen
        located = {key: int.from_bytes(value, "big") for key, value in self.store.scan(Family.LOCATIONS)}
        assert located == locations
        assert meta.counters(self.store).get("documents", 0) == len(first_seen)
        assert {key for key, _ in self.store.scan(Family.TEXTS)} == set(first_seen)

    @invariant()
    def titles_and_texts_come_from_captures(self) -> None:
        """Title and text are those of one remaining capture, or no title and the text in lower case."""
        pages_by_document: dict[bytes, set[tuple[str, str]]] = {}
        for capture in self.captures:
            if capture.document:
                pages_by_document.setdefault(capture.document, set()).add(self.titles_and_texts[capture])
        view = View(self.store)
        for document, pages in pages_by_document.items():
            (title_and_text,) = view.titles_and_texts([document])
            assert title_and_text in {*pages, ("", next(iter(pages))[1].lower())}

    @invariant()
    def holds_the_clusters(self) -> None:
        documents = {capture.document for capture in self.captures if capture.document}
        resemblances = {(a, b): resemblance(a, b) for a, b in combinations(sorted(documents), 2)}
        edges = [edge_row.decode(*row) for row in self.store.scan(Family.EDGES)]
        edge_resemblances = {(pair.a, pair.b): pair.resemblance for pair in edges}
        expected = {pair: share for pair, share in resemblances.items() if share >= THRESHOLD}
        self.assert_edges(edge_resemblances, expected)
        clusters = {frozenset(c.documents): set(c.urls) for c in query.clusters(View(self.store), min_size=1)}
        assert set(clusters) == {
            frozenset(d.hex() for d in group) for group in components(documents, set(edge_resemblances))
        }
        for group, urls in clusters.items():
            assert {url_key(url) for url in urls} == {
                url_key(capture.url)
                for capture in self.captures
                if capture.document and capture.document.hex() in group
            }

    def assert_edges(self, edges: dict[DocumentPair, float], expected: dict[DocumentPair, float]) -> None:
        assert edges == pytest.approx(expected, abs=1e-4)

    @invariant()
    def dead_letters_are_written(self) -> None:
        path = self.folder / "state" / "dead-letters.jsonl"
        assert (path.read_bytes().count(b"\n") if path.exists() else 0) == self.dead_letters


class LimitedEngine(Engine):
    """An engine with low limits: edges may be missing, and clusters follow from the stored edges."""

    engine_settings = settings(
        {
            "scheme": {"bands": 64, "rows": 1, "sample_max": 256},
            "policy": {"threshold": THRESHOLD, "keep_texts": True, "index_find": False},
            "limits": {"candidates_max": 2, "bucket_postings_max": 2},
            "ingest": {"batch_pages": 3},
        }
    )

    def assert_edges(self, edges: dict[DocumentPair, float], expected: dict[DocumentPair, float]) -> None:
        assert edges.keys() <= expected.keys()
        assert edges == pytest.approx({pair: expected[pair] for pair in edges}, abs=1e-4)
        if edges.keys() < expected.keys():
            counters = meta.counters(self.store)
            assert counters["candidates_max"] + counters["bucket_postings_max"] > 0


def components(nodes: set[bytes], pairs: set[tuple[bytes, bytes]]) -> list[set[bytes]]:
    """Return the connected components, by brute force."""
    groups = [{node} for node in nodes]
    for a, b in pairs:
        joined = [group for group in groups if a in group or b in group]
        groups = [group for group in groups if group not in joined] + [set[bytes]().union(*joined)]
    return groups


@pytest.mark.parametrize("machine", [Engine, LimitedEngine])
def test_engine_equals_model(machine: type[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 3)
    run_state_machine_as_test(machine, settings=hypothesis_settings(max_examples=15, stateful_step_count=30))


@pytest.mark.long
@pytest.mark.parametrize("machine", [Engine, LimitedEngine])
def test_engine_equals_model_in_long_runs(machine: type[Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 3)
    run_state_machine_as_test(machine, settings=hypothesis_settings(max_examples=300, stateful_step_count=60))
