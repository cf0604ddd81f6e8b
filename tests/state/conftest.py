"""A small sound state: two committed sweeps and an open one, with near-duplicates, moves, decisions and rejected pages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from state import analyses
from state.changes import Changes
from state.codecs import decision_row
from state.codecs.analysis_row import CHUNK_BYTES, AnalysisKey
from state.families import Family
from state.model import Decision, DecisionKind
from state.store import Store
from streams.urls import url_key
from tests.memory import MemoryStore
from tests.samples import NOW, html, missing, page, redirect, take, variant, words

NAVIGATION = "".join(f"<a href=/section{number}/>section {number}</a>" for number in range(40))
HOSTS = ["https://docs.example.org", "https://www.example.net:8443"]


@pytest.fixture(scope="session")
def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sound state, for tests that do not change it."""
    folder = tmp_path_factory.mktemp("sound")
    rng = random.Random(3)
    texts = [words(rng, 120) for _ in range(8)]
    texts += [variant(rng, text) for text in texts[:4] for _ in range(2)]
    pages = [
        page(f"{HOSTS[n % 2]}/p{n}.html", " ".join(text), NOW + n, title=f"Page {n}") for n, text in enumerate(texts)
    ]
    later = [{**line, "fetch_time": NOW + 10_000 + n} for n, line in enumerate(pages[4:])]
    later += [
        redirect(f"{HOSTS[0]}/p0.html", f"{HOSTS[0]}/new/p0.html", NOW + 10_900),
        page(f"{HOSTS[0]}/new/p0.html", " ".join(texts[0]), NOW + 10_901),
        page(f"{HOSTS[1]}/p1.html", " ".join(variant(rng, texts[1], 60)), NOW + 10_902),
        missing(f"{HOSTS[0]}/p2.html", NOW + 10_903),
        html(f"{HOSTS[0]}/empty.html", " ", NOW + 10_904),
    ]
    for number in range(3):
        body = f"<nav>{NAVIGATION}</nav><p>{' '.join(words(rng, 40))} <a href=/p{number}.html>page {number}</a></p>"
        pages += [html(f"{host}/linking{number}.html", body, NOW + 500 + number) for host in HOSTS]
        later += [html(f"{host}/linking{number}.html", f"{body} new", NOW + 11_000 + number) for host in HOSTS]
    with Store(folder / "state") as store:
        take(store, folder / "one.jsonl", pages, "one")
        take(store, folder / "two.jsonl", later, "two", now=NOW + 20_000)
        take(store, folder / "three.jsonl", later[:2], "three", now=NOW + 30_000, keep_open=True)
        store.write(decisions())
        results = Changes()
        lines = [b'{"hosts":["%s"]}' % (str(n).encode() * (CHUNK_BYTES // 2)) for n in range(4)]
        analyses.put(store, results, AnalysisKey(1, "mirrors", "paths"), lines, origin="00", counters={"limit": 2})
        analyses.put(store, results, AnalysisKey(2, "mirrors", "paths"), [], origin="01")
        store.write(results)
    return folder / "state"


def decisions() -> Changes:
    """Return decisions about six pages."""
    changes = Changes()
    for number in range(6):
        old_url, new_url = (f"{HOSTS[number % 2]}/{name}{number}.html" for name in ("p", "decided/"))
        decision = Decision(
            key=url_key(old_url), kind=DecisionKind.MOVED, time=NOW + number, old_url=old_url, new_url=new_url
        )
        changes.put(Family.DECISIONS, decision_row.encode_key(decision.key), decision_row.encode(decision))
    return changes


@pytest.fixture(scope="session")
def sound_store(sound_folder: Path) -> Iterator[Store]:
    """A reader of the sound state."""
    with Store(sound_folder, writable=False) as store:
        yield store


@pytest.fixture
def sound(sound_store: Store) -> MemoryStore:
    """A copy in memory, which tests can change."""
    memory, changes = MemoryStore(), Changes()
    for family in Family:
        changes.puts_of(family).update(sound_store.scan(family))
    memory.write(changes)
    return memory
