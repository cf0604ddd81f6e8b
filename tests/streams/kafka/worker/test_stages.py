"""Test the stages of a partition; tests/broker and tests/simulation test how they work together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from state.changes import Changes
from state.codecs import changelog_record, posting_list
from state.families import Family
from state.partition import Partition
from state.store import Store
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.kafka.worker.stages import Context, Outcome, process_captures, process_joins, process_retractions
from streams.operators.join import MemberTransfer, union
from streams.operators.messages import SketchedPage
from streams.operators.routing import partition_of
from streams.operators.sketch import SketchOperator, SketchTask
from streams.page import Page
from streams.settings import load
from tests.streams.kafka.collection_fixture import PARTITIONS, SETTINGS
from tests.streams.kafka.worker_fixture import write

CONTEXT = Context(SETTINGS, PARTITIONS)
A, B, C = (letter * 16 for letter in (b"A", b"B", b"C"))


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    partition = Partition(Store(tmp_path), SETTINGS.scheme, 0, 1)
    yield partition
    partition.close()


def sketch(*pages: Page) -> list[SketchedPage]:
    results = SketchOperator(SETTINGS.scheme, SETTINGS.policy, SETTINGS.limits)(SketchTask(1, list(pages)))
    return [item for page_results in results for item in page_results if isinstance(item, SketchedPage)]


def retraction(changes: Changes, **fields: object) -> Retraction:
    (record,) = changelog_record.encode(changes, kind=changelog_record.RETRACTION, record_bytes_max=1 << 20)
    return Retraction(record=record, **fields)  # type: ignore[arg-type]


def test_messages_are_sent_to_the_owners_of_their_keys() -> None:
    outcome = Outcome(CONTEXT)
    pages = sketch(*(Page(url=f"https://a.example/{number}", time=5, text="some words") for number in range(8)))
    outcome.queue(pages)
    assert sum(map(len, outcome.messages.values())) == len(pages)
    for (topic, number), messages in outcome.messages.items():
        assert topic is Topic.CAPTURES
        keys = [page.capture.key for page in messages if isinstance(page, SketchedPage)]
        assert {partition_of(key, PARTITIONS) for key in keys} == {number}


@pytest.mark.parametrize(("partitions", "factor"), [(1, 4), (4, 4), (16, 16)])
def test_an_owner_nominates_several_times_as_many_candidates_as_are_verified(partitions: int, factor: int) -> None:
    assert Context(SETTINGS, partitions).candidates_max == factor * SETTINGS.limits.candidates_max


def test_a_resolved_revisit_is_sent_to_the_owner_of_its_url(tmp_path: Path) -> None:
    pages = [Page(url=f"https://a.example/{number}", time=5, text="a text") for number in range(9)]
    urls = {partition_of(page.key, PARTITIONS): page.url for page in pages}
    with Store(tmp_path) as store:
        here = Partition(store, SETTINGS.scheme, 0, PARTITIONS)
        write(here, process_captures(here, sketch(Page(url=urls[0], time=5, text="a text")), CONTEXT).changes)
        revisit = sketch(Page(url=urls[1], time=6, original_url=urls[0]))
        outcome = process_captures(here, revisit, CONTEXT)
    ((destination, (sent,)),) = outcome.messages.items()
    assert destination == (Topic.CAPTURES, 1)
    assert isinstance(sent, SketchedPage)
    assert sent.original_key is None
    assert sent.capture.url == urls[1]


def test_a_long_member_list_is_sent_as_several_transfers(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.kafka.worker.stages.TRANSFER_MEMBERS_MAX", 3)
    members = [bytes([number]) * 16 for number in range(1, 8)]
    root, context = bytes(16), Context(SETTINGS, PARTITIONS)
    owner = partition_of(root[:5], PARTITIONS)
    partition.number = 1 - owner
    outcome = process_joins(partition, [MemberTransfer(root, tuple(members))], context)
    sent = outcome.messages[Topic.JOINS, owner]
    assert [len(message.members) for message in sent if isinstance(message, MemberTransfer)] == [3, 3, 1]


def test_results_of_joins_can_be_disabled(partition: Partition) -> None:
    context = Context(load(overrides={"kafka": {"results": []}}), 1)
    assert process_joins(partition, [union(A, B)], context).results == []
    assert len(process_joins(partition, [union(A, B)], Context(SETTINGS, 1)).results) == 1


def test_a_retraction_does_not_undo_a_later_union(partition: Partition) -> None:
    stored, changes = Changes(), Changes()
    for node in (B, C):
        stored.put(Family.PARENTS, node, A)
        changes.delete(Family.PARENTS, node)
    write(partition, stored)
    outcome = process_retractions(partition, [retraction(changes, parents={B: A, C: B}, postings=None)], CONTEXT)
    assert outcome.is_retraction
    assert outcome.changes.deletes[Family.PARENTS] == {B}, "C has another parent than the changes were computed from"


def test_a_retraction_keeps_postings_of_other_documents(partition: Partition) -> None:
    bucket, stored, changes = b"bucket", Changes(), Changes()
    stored.put(Family.BANDS, bucket, posting_list.encode([A[:5], B[:5], C[:5]]))
    changes.put(Family.BANDS, bucket, posting_list.encode([B[:5]]))
    write(partition, stored)
    outcome = process_retractions(partition, [retraction(changes, parents=None, postings=[A[:5]])], CONTEXT)
    remaining = outcome.changes.puts[Family.BANDS][bucket]
    assert list(posting_list.decode(remaining)) == [B[:5], C[:5]], "C was added since the changes were computed"
