"""Cancelling a sweep while many of its messages are in flight."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from state.check import check
from state.families import Family
from state.stats import stats
from streams.kafka.collection.http_server import Server
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.sweep_log import Event
from streams.settings import load
from tests.streams.kafka.collection_fixture import Collection
from tests.streams.kafka.worker_fixture import FakeSweepLog

TEXT = "a page of the sweep that is taken back, number"


def cancel(made: Collection, name: str) -> None:
    runner: Any = SimpleNamespace(sweep_log=FakeSweepLog(made.table))
    collection: Any = SimpleNamespace(
        runner=runner, app=None, lag=made, store=made.store, apply_retraction=made.apply_retraction
    )
    asyncio.run(Server(collection)._cancel(Event(event="cancel", name=name, time=5)))


@pytest.mark.parametrize("stages", range(5))
def test_a_cancelled_sweep_of_which_much_is_under_way_leaves_nothing(tmp_path: Path, stages: int) -> None:
    made = Collection(tmp_path)
    made.events(Event(event="open", name="good", time=1), Event(event="open", name="bad", time=2))
    made.sketch(1, {f"https://a.example/{at}": f"{at} good pages {at} stay where they are {at}" for at in range(4)})
    made.take()
    families = [family for family in Family if family not in (Family.META, Family.SWEEPS)]
    before = {family: list(made.store().scan(family)) for family in families}
    made.sketch(2, {f"https://spam.example/{at}": f"{TEXT} {at}" for at in range(6)})
    for topic in (Topic.CAPTURES, Topic.DOCUMENTS, Topic.BUCKETS, Topic.DOCUMENTS)[:stages]:
        for number in made.parts:
            made._take(topic, number)
    cancel(made, "bad")
    made.take()
    assert {family: list(made.store().scan(family)) for family in families} == before
    assert made.table.find("bad") is None


def test_those_that_a_flood_crowded_out_are_posted_again(tmp_path: Path) -> None:
    """As the embedded engine does, and each partition is sound."""
    settings = load(overrides={"limits": {"bucket_postings_max": 2}})
    made = Collection(tmp_path, settings=settings)
    made.events(Event(event="open", name="good", time=1), Event(event="open", name="flood", time=2))
    words = " ".join(f"word{number}" for number in range(150))
    made.sketch(1, {f"https://a.example/{at}": f"{words} {at}" for at in range(2)})
    made.take()
    before = dict(made.store().scan(Family.BANDS))
    made.sketch(2, {f"https://spam.example/{at}": f"{words} more{at}" for at in range(12)})
    made.take()
    assert dict(made.store().scan(Family.BANDS)).items() & before.items() < before.items()
    cancel(made, "flood")
    assert dict(made.store().scan(Family.BANDS)) == before
    for number, partition in made.parts.items():
        assert list(check(partition.store, postings_max=2, owns=made.owns(number))) == []
    assert sum(stats(partition.store).documents for partition in made.parts.values()) == 2
