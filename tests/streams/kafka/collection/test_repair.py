"""Forgetting while pages go through the stages: clusters are as if it had waited."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from state.changes import Changes
from state.codecs import changelog_record
from state.families import Family
from state.view import View
from streams import forgetting, query
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.kafka.wire.sweep_log import Event
from streams.operators import routing
from streams.operators.join import Union
from streams.urls import url_key
from tests.streams.kafka.collection_fixture import PARTITIONS, Collection

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima")


def text(rng: Random, words: int) -> str:
    return " ".join(f"{rng.choice(WORDS)}{rng.randrange(50)}" for _ in range(words))


def crowd(rng: Random, pages: int) -> dict[str, str]:
    """Near-duplicates of one page."""
    base = text(rng, 120)
    return {f"https://a.example/{number}": f"{base} {text(rng, 1)}{number}" for number in range(pages)}


def sound(made: Collection, gone: set[bytes], urls: set[str]) -> None:
    """See that all clusters are as the edges say, and hold the URLs that are left and no others."""
    view = View(made.store())
    by_edges = query.clusters_by_policy(view, threshold=0.0, containment=False, sweep=None, min_size=1)
    found = list(query.clusters(view, min_size=1))
    assert sorted(sorted(each.documents) for each in found) == sorted(sorted(each.documents) for each in by_edges)
    assert {url for each in found for url in each.urls} == urls
    assert not {bytes.fromhex(document) for each in found for document in each.documents} & gone
    for each in found:
        roots = view.roots([bytes.fromhex(document) for document in each.documents])
        assert set(roots) == {bytes.fromhex(min(each.documents))}


@pytest.mark.parametrize("seed", range(16))
def test_forgetting_beside_running_joins(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    made = Collection(tmp_path, rng)
    made.events(Event(event="open", name="first", time=1))
    pages = crowd(rng, 16)
    urls = list(pages)
    rng.shuffle(urls)
    made.sketch(1, {url: pages[url] for url in urls[:10]})
    made.take()
    view = View(made.store())
    held = {url: view.captures(url_key(url))[-1].document or b"" for url in urls[:10]}
    roots = {url for url, document in held.items() if view.root(document) == document}
    # A root is what others join; a document in the middle is what holds two parts together.
    going = [rng.choice(sorted(roots)), rng.choice(urls[:10])][: rng.randint(1, 2)]
    made.sketch(1, {url: pages[url] for url in urls[10:]})
    made.advance(60, [Topic.CAPTURES, Topic.DOCUMENTS, Topic.BUCKETS])
    for url in dict.fromkeys(going):
        forgetting.apply(forgetting.forget_url(made.store(), url_key(url)), made.apply_retraction)
    made.take()
    sound(made, {held[url] for url in going}, set(urls) - set(going))


@pytest.mark.parametrize(("parents", "stays"), [({}, True), ({b"c" * 16: b"a" * 16}, False), (None, False)])
def test_a_pointer_that_a_union_has_set_since_stays(
    tmp_path: Path, parents: dict[bytes, bytes] | None, stays: bool
) -> None:
    made = Collection(tmp_path)
    node, other = b"c" * 16, b"a" * 16
    number = routing.partition_of(node[:5], PARTITIONS)
    made.send({(Topic.JOINS, number): [Union(node, other)]})
    made.take()
    changes = Changes()
    changes.delete(Family.PARENTS, node)
    (record,) = changelog_record.encode(changes, kind=changelog_record.AMENDMENT)
    made.send({(Topic.RETRACTIONS, number): [Retraction(record, parents)]})
    made.take()
    assert (made.store().get(Family.PARENTS, node) == other) is stays
