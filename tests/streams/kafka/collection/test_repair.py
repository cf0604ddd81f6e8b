"""Test retractions that race with joins: the clusters end up as if there had been no race."""

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


def similar_pages(rng: Random, pages: int) -> dict[str, str]:
    """Near-duplicates of one page."""
    base = text(rng, 120)
    return {f"https://a.example/{number}": f"{base} {text(rng, 1)}{number}" for number in range(pages)}


def assert_consistent(collection: Collection, gone: set[bytes], urls: set[str]) -> None:
    """Assert that all clusters match the edges and have exactly the remaining URLs."""
    view = View(collection.sharded_store())
    by_edges = query.clusters_by_policy(view, threshold=0.0, containment=False, sweep=None, min_size=1)
    clusters = list(query.clusters(view, min_size=1))
    assert sorted(sorted(cluster.documents) for cluster in clusters) == sorted(
        sorted(cluster.documents) for cluster in by_edges
    )
    assert {url for cluster in clusters for url in cluster.urls} == urls
    assert not {bytes.fromhex(document) for cluster in clusters for document in cluster.documents} & gone
    for cluster in clusters:
        roots = view.roots([bytes.fromhex(document) for document in cluster.documents])
        assert set(roots) == {bytes.fromhex(min(cluster.documents))}


@pytest.mark.parametrize("seed", range(16))
def test_forgetting_while_unions_are_in_flight(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    collection = Collection(tmp_path, rng)
    collection.events(Event(event="open", name="first", time=1))
    pages = similar_pages(rng, 16)
    urls = list(pages)
    rng.shuffle(urls)
    collection.sketch(1, {url: pages[url] for url in urls[:10]})
    collection.process()
    view = View(collection.sharded_store())
    documents = {url: view.captures(url_key(url))[-1].document or b"" for url in urls[:10]}
    roots = {url for url, document in documents.items() if view.root(document) == document}
    # Deleting a root or a document between two parts of a cluster needs a rejoin.
    going = [rng.choice(sorted(roots)), rng.choice(urls[:10])][: rng.randint(1, 2)]
    collection.sketch(1, {url: pages[url] for url in urls[10:]})
    collection.advance(60, [Topic.CAPTURES, Topic.DOCUMENTS, Topic.BUCKETS])
    for url in dict.fromkeys(going):
        forgetting.commit_removals(
            forgetting.forget_url(collection.sharded_store(), url_key(url)), collection.apply_retraction
        )
    collection.process()
    assert_consistent(collection, {documents[url] for url in going}, set(urls) - set(going))


@pytest.mark.parametrize(("parents", "stays"), [({}, True), ({b"c" * 16: b"a" * 16}, False), (None, False)])
def test_a_pointer_set_after_the_changes_were_computed_stays(
    tmp_path: Path, parents: dict[bytes, bytes] | None, stays: bool
) -> None:
    collection = Collection(tmp_path)
    node, other = b"c" * 16, b"a" * 16
    number = routing.partition_of(node[:5], PARTITIONS)
    collection.send({(Topic.JOINS, number): [Union(node, other)]})
    collection.process()
    changes = Changes()
    changes.delete(Family.PARENTS, node)
    (record,) = changelog_record.encode(changes, kind=changelog_record.RETRACTION)
    collection.send({(Topic.RETRACTIONS, number): [Retraction(record, parents)]})
    collection.process()
    assert (collection.sharded_store().get(Family.PARENTS, node) == other) is stays
