"""Test retractions that race with pages of the same documents: every document of a capture stays complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest

from state.changes import Changes
from state.check import check
from state.codecs import capture_row, document_row
from state.families import Family
from state.model import PREFIX_BYTES
from state.view import View
from streams import forgetting
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.sweep_log import Event
from streams.page import Page
from streams.sketch.sketcher import Sketcher
from streams.urls import url_key
from tests.streams.kafka.collection.test_repair import assert_consistent, similar_pages
from tests.streams.kafka.collection_fixture import SETTINGS, Collection

URL, OTHER = "https://a.example/x", "https://b.example/y"
TEXT = "the same page that two sweeps find while one of them is cancelled"
KEEPING = (Topic.CAPTURES, Topic.DOCUMENTS)


def assert_complete(collection: Collection) -> None:
    """Assert that the document of every capture is stored, with its location and postings, and nothing else is."""
    for number, partition in collection.parts.items():
        assert list(check(partition.store, postings_max=1_000, owns=collection.owns(number))) == []
    store = collection.sharded_store()
    captures = {capture_row.decode(*row) for row in store.scan(Family.CAPTURES)}
    locations = {capture.document + capture.key for capture in captures if capture.document}
    assert {location for location, _ in store.scan(Family.LOCATIONS)} == locations
    rows = dict(store.scan(Family.DOCUMENTS))
    assert rows.keys() == {capture.document for capture in captures if capture.document}
    assert {key for key, _ in store.scan(Family.TEXTS)} == rows.keys()
    width = SETTINGS.scheme.rows
    buckets = {
        bytes((band,)) + signature[band * width : (band + 1) * width] + key[:PREFIX_BYTES]
        for key, row in rows.items()
        for signature in [document_row.decode(key, row).sketch.signature.tobytes()]
        for band in range(SETTINGS.scheme.bands)
    }
    stored = {
        bucket + postings[at : at + PREFIX_BYTES]
        for bucket, postings in store.scan(Family.BANDS)
        for at in range(0, len(postings), PREFIX_BYTES)
    }
    assert stored == buckets


def before_retraction(collection: Collection, monkeypatch: pytest.MonkeyPatch, action: Callable[[], None]) -> None:
    """Run `action` after forgetting has read its rows and before its changes are applied."""
    send = collection.send_retraction

    def late(parts: Mapping[int, Changes]) -> None:
        if any(changes.deletes.get(Family.CAPTURES) for changes in parts.values()):
            action()
        send(parts)

    monkeypatch.setattr(collection, "send_retraction", late)


def collection_of_one(folder: Path) -> Collection:
    """A collection of two sweeps; the first one has a page."""
    collection = Collection(folder)
    collection.events(Event(event="open", name="one", time=1), Event(event="open", name="two", time=2))
    collection.sketch(1, {URL: TEXT})
    collection.process()
    return collection


@pytest.mark.parametrize("url", [URL, OTHER])
@pytest.mark.parametrize("stages", range(3))
@pytest.mark.parametrize("cancel", [True, False])
def test_a_page_with_the_same_text_arrives_during_a_retraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, stages: int, cancel: bool
) -> None:
    """The page passes some stages after the history was read and before the retraction is applied."""
    collection = collection_of_one(tmp_path)
    (entry,) = dict(collection.sharded_store().scan(Family.DOCUMENTS))
    words = dict(collection.sharded_store().scan(Family.WORDS))

    def meanwhile() -> None:
        collection.sketch(2, {url: TEXT.upper()})
        collection.process(KEEPING[:stages])

    before_retraction(collection, monkeypatch, meanwhile)
    if cancel:
        forgetting.commit_removals(
            forgetting.cancel_sweep(collection.sharded_store(), collection.table.sweeps[1]),
            collection.apply_retraction,
        )
    else:
        forgetting.commit_removals(
            forgetting.forget_url(collection.sharded_store(), url_key(URL)), collection.apply_retraction
        )
    collection.process()
    assert_complete(collection)
    view = View(collection.sharded_store())
    (capture,) = view.captures(url_key(url))
    assert (capture.sweep, capture.document) == (2, entry)
    assert view.titles_and_texts([entry])[0] in {
        ("", TEXT.upper()),
        ("", Sketcher(SETTINGS.scheme).canonical_text(TEXT)),
    }
    if url == URL:
        assert dict(collection.sharded_store().scan(Family.WORDS)) == words


@pytest.mark.parametrize("topics", [[], [Topic.CAPTURES], KEEPING])
def test_a_revisit_of_a_deleted_url_arrives_during_a_retraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: Sequence[Topic]
) -> None:
    """A revisit has no text."""
    collection = collection_of_one(tmp_path)

    def meanwhile() -> None:
        collection.pages(2, [Page(url=OTHER, time=1_700_000_000_002, original_url=URL)])
        collection.process(topics)

    before_retraction(collection, monkeypatch, meanwhile)
    forgetting.commit_removals(
        forgetting.forget_url(collection.sharded_store(), url_key(URL)), collection.apply_retraction
    )
    collection.process()
    assert_complete(collection)
    (capture,) = View(collection.sharded_store()).captures(url_key(OTHER))
    assert (capture.document is not None) == bool(topics), "a revisit of a deleted URL has no document"


def test_a_page_arrives_after_its_document_and_before_its_postings_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = collection_of_one(tmp_path)
    (entry,) = dict(collection.sharded_store().scan(Family.DOCUMENTS))
    owner = next(number for number in collection.parts if collection.owns(number)(entry[:PREFIX_BYTES]))
    advance = collection.advance

    def first_one(steps_max: int) -> None:
        if collection.process_some(Topic.RETRACTIONS, owner):
            collection.sketch(2, {OTHER: TEXT})
            collection.process([Topic.CAPTURES, Topic.DOCUMENTS, Topic.BUCKETS])
        advance(steps_max)

    monkeypatch.setattr(collection, "advance", first_one)
    forgetting.commit_removals(
        forgetting.forget_url(collection.sharded_store(), url_key(URL)), collection.apply_retraction
    )
    collection.process()
    assert_complete(collection)
    assert set(dict(collection.sharded_store().scan(Family.DOCUMENTS))) == {entry}


@pytest.mark.parametrize("seed", range(16))
def test_cancelling_a_sweep_while_another_has_the_same_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = Random(seed)
    collection = Collection(tmp_path, rng)
    collection.events(*(Event(event="open", name=name, time=1) for name in ("bad", "good")))
    pages = similar_pages(rng, 12)
    collection.sketch(1, pages)
    collection.process()
    some = dict(rng.sample(sorted(pages.items()), 8))
    moved = {url.replace("a.example", "b.example"): text for url, text in rng.sample(sorted(pages.items()), 3)}
    new = {url.replace("a.example", "c.example"): f"{text} new" for url, text in rng.sample(sorted(pages.items()), 3)}

    def meanwhile() -> None:
        for texts in (some, moved, new):
            collection.sketch(2, texts)
        collection.advance(rng.choice((0, 20, 200)))

    before_retraction(collection, monkeypatch, meanwhile)
    forgetting.commit_removals(
        forgetting.cancel_sweep(collection.sharded_store(), collection.table.sweeps[1]), collection.apply_retraction
    )
    collection.process()
    assert_complete(collection)
    assert_consistent(collection, set(), {*some, *moved, *new})
