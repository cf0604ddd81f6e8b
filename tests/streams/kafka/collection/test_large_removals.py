"""Test removals in parts from a collection to which pages are added: each large cluster is rebuilt only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from state.changes import Changes
from state.codecs import changelog_record
from state.families import Family
from state.model import Sweep, SweepState
from state.rows import RowReader
from state.view import View
from streams import forgetting
from streams.forgetting import Removal, deferral, removal
from streams.kafka.rows.sharded_store import ShardedStore
from streams.kafka.wire.sweep_log import Event
from streams.operators import forest
from streams.operators.forest import DisjointSets
from streams.page import Page
from streams.sketch.sketcher import Sketcher
from streams.urls import url_key
from tests.memory import MemoryStore
from tests.samples import variant, words
from tests.streams.kafka.collection.test_repair import assert_consistent
from tests.streams.kafka.collection_fixture import SETTINGS, Collection

URL = "https://a.example/x"
PART, LARGE = 4, 3
Rows = dict[Family, dict[bytes, bytes]]
Start = Callable[..., Iterator[Removal]]


def start_forgetting(store: RowReader, *, only_writer: bool = False) -> Iterator[Removal]:
    return forgetting.forget_url(store, url_key(URL), only_writer=only_writer)


def start_forgetting_a_document(store: RowReader, *, only_writer: bool = False) -> Iterator[Removal]:
    document = Sketcher(SETTINGS.scheme).sketch(versions(Random(7), 1)[0]).document
    return forgetting.forget_document(store, document, only_writer=only_writer)


def start_cancelling(store: RowReader, *, only_writer: bool = False) -> Iterator[Removal]:
    sweep = Sweep(number=2, name="two", state=SweepState.OPEN, opened_time=0)
    return forgetting.cancel_sweep(store, sweep, only_writer=only_writer)


COMMANDS: dict[str, Start] = {
    "forget": start_forgetting,
    "forget a document": start_forgetting_a_document,
    "cancel": start_cancelling,
}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", PART)
    monkeypatch.setattr(deferral, "LARGE_CLUSTER_MEMBERS", LARGE)


def versions(rng: Random, count: int) -> list[str]:
    base = words(rng, 120)
    return [" ".join(variant(rng, base, 2)) for _ in range(count)]


def build(folder: Path, count: int = 24, rng: Random | None = None) -> Collection:
    """Return a collection with near-duplicates: most at one URL, half of them in the second sweep, one at many URLs."""
    collection = Collection(folder, rng)
    random = Random(7)
    for number, name in enumerate(("one", "two"), start=1):
        collection.events(Event(event="open", name=name, time=number))
        pages = []
        for n, text in enumerate(versions(random, count // 2)):
            time = 1_700_000_000_000 + 1_000 * (number * count + n)
            pages.append(Page(url=URL if n % 3 else f"https://b.example/{number}/{n}", text=text, time=time))
            if n % 6 == 1:
                pages.append(Page(url=f"https://c.example/{n}", text=text, time=time + 1))
            if n == 0 and number == 1:
                pages += [Page(url=f"https://e.example/{copy}", text=text, time=time + copy) for copy in range(12)]
        collection.pages(number, pages)
    collection.process()
    return collection


def rows(store: ShardedStore) -> Rows:
    """Return the rows of all partitions, with roots instead of parents."""
    omitted = (Family.META, Family.SWEEPS)
    families: Rows = {family: dict(store.scan(family)) for family in Family if family not in omitted}
    documents = sorted(families[Family.DOCUMENTS])
    families[Family.PARENTS] = dict(zip(documents, View(store).roots(documents), strict=True))
    return families


def rows_after_embedded_removal(folder: Path, start: Start) -> Rows:
    """Remove everything at once from a copy of the rows, as the embedded engine does."""
    source = build(folder).sharded_store()
    store = MemoryStore()
    changes = Changes()
    for family in Family:
        for key, value in source.scan(family):
            changes.put(family, key, value)
    store.write(changes)
    forgetting.commit_removals(start(store, only_writer=True), store.write)
    return rows(store)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Return the rows after each command in the embedded engine."""
    results = {}
    for name, start in COMMANDS.items():
        results[name] = rows_after_embedded_removal(tmp_path_factory.mktemp(name), start)
        assert results[name][Family.MEMBERS], "the test needs clusters that remain"
    return results


@pytest.mark.parametrize("name", COMMANDS)
def test_parts_give_the_same_rows_as_the_embedded_engine(
    name: str, expected: dict[str, Rows], tmp_path: Path
) -> None:
    collection = build(tmp_path)
    reported: list[Removal] = []
    forgetting.commit_removals(
        COMMANDS[name](collection.sharded_store()), collection.apply_retraction, reported.append
    )
    collection.process()
    assert rows(collection.sharded_store()) == expected[name]
    assert max(part.captures for part in reported) == PART
    assert len([part for part in reported if part.captures]) > 2


class Killed(Exception):
    """The process was killed."""


@pytest.mark.parametrize("commits", range(12))
@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_finishes_an_interrupted_removal(
    name: str, commits: int, expected: dict[str, Rows], tmp_path: Path
) -> None:
    collection = build(tmp_path)
    remaining = commits

    def commit(changes: Changes) -> None:
        nonlocal remaining
        if not remaining:
            raise Killed
        remaining -= 1
        collection.apply_retraction(changes)

    try:
        forgetting.commit_removals(COMMANDS[name](collection.sharded_store()), commit)
    except Killed:
        forgetting.commit_removals(COMMANDS[name](collection.sharded_store()), collection.apply_retraction)
    collection.process()
    assert rows(collection.sharded_store()) == expected[name]


@pytest.mark.parametrize("seed", range(8))
def test_pages_arrive_during_a_removal_in_parts(seed: int, tmp_path: Path) -> None:
    """Some of the pages have deleted documents, others are near-duplicates of them."""
    rng = Random(seed)
    collection = build(tmp_path, rng=rng)
    view = View(collection.sharded_store())
    urls = {capture.url for capture in view.all_captures() if capture.url != URL}
    texts = versions(Random(7), 12)  # those of the first sweep
    arriving = {f"https://d.example/{n}": text for n, text in enumerate(rng.sample(texts, 4) + versions(rng, 2))}
    urls |= arriving.keys()

    def commit(changes: Changes) -> None:
        if arriving:
            url = rng.choice(sorted(arriving))
            collection.sketch(1, {url: arriving.pop(url)})
        collection.apply_retraction(changes)

    forgetting.commit_removals(start_forgetting(collection.sharded_store()), commit)
    collection.sketch(1, arriving)
    collection.process()
    assert_consistent(collection, set(), urls)
    documents = {key for key, _ in collection.sharded_store().scan(Family.DOCUMENTS)}
    linked = {key[at : at + 16] for key, _ in collection.sharded_store().scan(Family.EDGES) for at in (0, 16)}
    assert linked <= documents


def unions_run(folder: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many edges are joined while a URL with many documents is forgotten."""
    done = 0
    join = DisjointSets.union

    def counted(*arguments: Any) -> bool:
        nonlocal done
        done += 1
        return join(*arguments)

    collection = build(folder, count)
    with monkeypatch.context() as patch:
        patch.setattr(forest.DisjointSets, "union", counted)
        forgetting.commit_removals(start_forgetting(collection.sharded_store()), collection.apply_retraction)
    return done


def test_a_large_cluster_is_rebuilt_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = build(tmp_path / "collection", 40)
    edges = len(list(collection.sharded_store().scan(Family.EDGES)))
    assert 0 < unions_run(tmp_path / "counted", 40, monkeypatch) <= edges


def test_a_url_with_many_captures_is_retracted_in_small_messages(tmp_path: Path) -> None:
    sizes: dict[int, list[int]] = {}
    for count in (24, 96):
        collection = build(tmp_path / str(count), count)
        removals = start_forgetting(collection.sharded_store())
        sizes[count] = []

        def commit(changes: Changes, sizes: list[int] = sizes[count], collection: Collection = collection) -> None:
            if Family.CAPTURES in changes.deletes and Family.MEMBERS not in changes.deletes:
                sizes.append(sum(map(len, changelog_record.encode(changes, kind=changelog_record.RETRACTION))))
            collection.apply_retraction(changes)

        forgetting.commit_removals(removals, commit)
    assert len(sizes[96]) > 3 * len(sizes[24])
    assert max(sizes[96]) < 2 * max(sizes[24])
