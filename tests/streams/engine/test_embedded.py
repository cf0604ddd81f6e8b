"""The embedded engine runs a batch through all operators and commits it as one set of changes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from state import meta
from state.check import check
from state.errors import StateIncompatible
from state.families import Family
from state.model import Sweep, SweepState
from state.store import Store
from streams.engine import embedded
from streams.engine.embedded import BatchReport, Engine
from streams.operators.messages import SketchedPage
from streams.operators.sketch import SketchOperator, SketchTask
from streams.page import Page, Rejected
from streams.settings import Settings
from tests.samples import NOW, settings, variant, words

SETTINGS = settings()
SWEEP = Sweep(number=1, name="one", state=SweepState.OPEN, opened_time=NOW)


def sketched(texts: Sequence[list[str]], custom: Settings = SETTINGS, start: int = 0) -> list[SketchedPage]:
    pages = [
        Page(url=f"https://a.org/{start + n}", time=NOW + start + n, text=" ".join(text))
        for n, text in enumerate(texts)
    ]
    stage = SketchOperator(custom.scheme, custom.policy, custom.limits)
    results = [result for page_results in stage(SketchTask(1, pages)) for result in page_results]
    assert all(isinstance(result, SketchedPage) for result in results)
    return [result for result in results if isinstance(result, SketchedPage)]


def take(engine: Engine, pages: list[SketchedPage], rejected: Sequence[Rejected] = ()) -> int:
    prepared = engine.prepare(SWEEP, pages, rejected)
    engine.commit(prepared)
    return prepared.report.near_duplicates


def test_prepare_changes_nothing_before_commit(store: Store) -> None:
    engine = Engine(store, SETTINGS)
    before = {family: list(store.scan(family)) for family in Family}
    prepared = engine.prepare(SWEEP, sketched([words(random.Random(1), 50)]), [])
    assert {family: list(store.scan(family)) for family in Family} == before
    assert engine.counters == {}
    assert prepared.report == BatchReport(
        pages=1, new=1, copies=0, unchanged=0, near_duplicates=0, not_pages=0, rejected=[]
    )
    engine.commit(prepared)
    assert len(list(store.scan(Family.DOCUMENTS))) == 1
    assert engine.counters == meta.counters(store)


def test_stale_last_captures_are_read_again(store: Store) -> None:
    engine = Engine(store, SETTINGS)
    (page,) = sketched([words(random.Random(1), 50)])
    commits_at_read = engine.commits
    engine.commit(engine.prepare(SWEEP, [page], []))
    prepared = engine.prepare(SWEEP, [page], [], last_captures={}, commits_at_read=commits_at_read)
    assert prepared.report.copies == engine.prepare(SWEEP, [page], []).report.copies
    fresh = engine.prepare(SWEEP, [page], [], last_captures={}, commits_at_read=engine.commits)
    assert fresh.report.copies == 1, "a current read is used as it is"


def test_another_scheme_is_refused(store: Store) -> None:
    Engine(store, SETTINGS)
    with pytest.raises(StateIncompatible, match="bands 20 instead of 8"):
        Engine(store, settings({"scheme": {"bands": 8}}))


def test_another_engine_continues_the_counters(store: Store) -> None:
    rng = random.Random(2)
    refused = Rejected("bad_url", "", sketched([["one", "two"]])[0].origin)
    for n in range(2):
        take(Engine(store, SETTINGS), sketched([words(rng, 50)], start=n), [refused])
    counters = meta.counters(store)
    assert (counters["pages"], counters["documents"], counters["rejected"]) == (2, 2, 2)


@pytest.mark.parametrize("apart", [True, False])
def test_near_copies_meet_within_a_batch_and_between(store: Store, apart: bool) -> None:
    rng = random.Random(3)
    text = words(rng, 200)
    pages = sketched([text, variant(rng, text), variant(rng, text), words(rng, 200)])
    engine = Engine(store, SETTINGS)
    near = sum(take(engine, [page]) for page in pages) if apart else take(engine, pages)
    assert near == 2
    assert len(list(store.scan(Family.EDGES))) == 3
    assert len(list(store.scan(Family.MEMBERS))) == 2
    assert list(check(store, postings_max=32)) == []


def test_a_small_cache_of_sketches_gives_the_same(
    store: Store, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(4)
    text = words(rng, 150)
    pages = sketched([variant(rng, text) for _ in range(20)])
    engine = Engine(store, SETTINGS)
    for page in pages:
        take(engine, [page])
    monkeypatch.setattr(embedded, "CACHED_PREFIXES_MAX", 1)
    with Store(tmp_path_factory.mktemp("other") / "state") as other:
        engine = Engine(other, SETTINGS)
        for page in pages:
            take(engine, [page])
        for family in Family:
            assert dict(other.scan(family)) == dict(store.scan(family)), family


def test_all_documents_with_the_prefix_of_a_posting_are_compared(store: Store) -> None:
    """A posting is the prefix of a document id, and several documents may share it."""
    from msgspec.structs import replace

    rng = random.Random(5)
    text = words(rng, 150)
    one, two, asks = sketched([text, variant(rng, text), variant(rng, text)])
    assert one.payload
    assert two.payload
    twin = one.payload.document[:5] + bytes(11)
    two = replace(two, capture=replace(two.capture, document=twin), payload=replace(two.payload, document=twin))
    engine = Engine(store, SETTINGS)
    take(engine, [one])
    take(engine, [two])
    assert take(engine, [asks]) == 1
    assert asks.payload
    joined = {key[:16] for key, _ in store.scan(Family.EDGES)} | {key[16:] for key, _ in store.scan(Family.EDGES)}
    assert joined == {one.payload.document, twin, asks.payload.document}
    assert list(check(store, postings_max=32)) == []
