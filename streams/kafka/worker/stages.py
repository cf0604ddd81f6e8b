"""Applies the operators to the messages of one partition, without talking to the broker.

A stage reads the store and returns an Outcome. The caller sends the outcome's messages, then writes its changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from state import meta
from state.changes import Changes
from state.codecs import changelog_record, document_row, posting_list
from state.families import Family
from state.model import PREFIX_BYTES, Decision
from state.partition import Partition
from state.rows import RowReader
from state.store import Store
from streams.forgetting.link_removal import delete_links
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.kafka.wire.result_messages import Result
from streams.kafka.worker.results import (
    Location,
    Locations,
    Match,
    joined_result,
    near_duplicate_results,
    retraction_results,
)
from streams.operators import admit, capture, decide, gather, join, link, lookups, probe, routing, verify
from streams.operators.forest import Forest
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest
from streams.page import Rejected
from streams.query.similar import IDENTICAL
from streams.settings import Settings

CANDIDATES_FACTOR_MIN = 4  # `limits.candidates_max` is multiplied by at least this number
TRANSFER_MEMBERS_MAX = 5_000  # per message; a member has 16 bytes


class Context(msgspec.Struct, frozen=True):
    """The settings and the number of partitions, which all stages of a worker share."""

    settings: Settings
    partition_count: int

    @property
    def candidates_max(self) -> int:
        """The maximum number of candidates per document and batch, for nomination and for verification.

        A partition has only some of a document's buckets, and a batch contains only some of its pairs. With a limit
        of `limits.candidates_max`, the result would depend on how the buckets and the log are divided.
        """
        return self.settings.limits.candidates_max * max(CANDIDATES_FACTOR_MIN, self.partition_count)

    @property
    def bucket_bytes(self) -> int:
        """Bytes per bucket key."""
        return self.settings.scheme.bucket_bytes

    def writes_results(self, topic: Topic) -> bool:
        """Return whether a result topic is enabled."""
        return topic.value in self.settings.kafka.results


class Outcome:
    """The outcome of a batch: messages to send, changes to write, dead letters, results and counts."""

    def __init__(self, context: Context) -> None:
        # By topic and partition.
        self.messages: defaultdict[tuple[Topic, int], list[msgspec.Struct]] = defaultdict(list)
        self.changes = Changes()
        self.is_retraction = False
        self.rejected: list[Rejected] = []
        self.results: list[Result] = []
        self.counts: Counter[str] = Counter()  # by name in `metrics.COUNTERS`
        self._context = context

    def queue(self, messages: Iterable[routing.Message]) -> None:
        """Queue messages for the partitions that own their keys."""
        bucket_bytes, partition_count = self._context.bucket_bytes, self._context.partition_count
        for message in messages:
            stage, partition = routing.destination(message, bucket_bytes, partition_count)
            self.messages[Topic(stage), partition].append(message)


def process_captures(partition: Partition, messages: Sequence[SketchedPage | Decision], context: Context) -> Outcome:
    """Write captures and decisions, and send sightings of new or changed pages.

    A revisit arrives at the owner of the original's URL. Once resolved, it is forwarded to the owner of its own URL.
    """
    outcome, store = Outcome(context), partition.store
    pages = [message for message in messages if isinstance(message, SketchedPage)]
    decisions = [message for message in messages if isinstance(message, Decision)]
    resolved, unresolved = capture.resolve(
        pages, lookups.read_possible_originals(store, capture.original_queries(pages))
    )
    own_pages: list[SketchedPage] = []
    for page in resolved:
        if routing.partition_of(page.capture.key, context.partition_count) == partition.number:
            own_pages.append(page)
        else:
            outcome.queue([page])
    last_captures = lookups.read_last_captures(store, capture.url_keys(own_pages))
    result = capture.capture(own_pages, last_captures)
    link_result = link.link(own_pages, last_captures, lookups.read_stored_chunks(store, own_pages, last_captures))
    outcome.queue(result.sightings)
    outcome.changes = result.changes
    stored_decisions = lookups.read_rows(store, Family.DECISIONS, decide.row_keys(decisions))
    outcome.changes.update(link_result.changes)
    outcome.changes.update(decide.decide(decisions, stored_decisions))
    outcome.rejected += unresolved
    outcome.counts.update(
        captures=len(result.captures),
        unchanged=result.unchanged,
        html_stripped=result.stripped,
        links_dropped=link_result.links_dropped,
        anchors_cut=link_result.anchors_cut,
        decisions=len(decisions),
    )
    return outcome


def process_documents(partition: Partition, messages: Sequence[Any], context: Context) -> Outcome:
    """Store new documents, request the verification of their candidates, and verify candidates stored here.

    The three types of messages share one topic, so that the sighting of a candidate precedes all requests to verify
    the candidate.
    """
    outcome, store, partition_count = Outcome(context), partition.store, context.partition_count
    sightings = [message for message in messages if isinstance(message, Sighting)]
    documents, old_locations, texts = lookups.read_admission_rows(store, sightings)
    outcome.changes, new_payloads = admit.admit(sightings, documents, old_locations, texts)
    for payload in new_payloads:
        probes = routing.bucket_probes(payload.document, payload.buckets, context.bucket_bytes, partition_count)
        outcome.queue(probes)
    outcome.counts.update(sightings=len(sightings), documents=len(new_payloads))
    # The changes already contain all new locations of the batch: the steps below add none.
    locations = Locations(store, outcome.changes) if context.writes_results(Topic.NEAR_DUPLICATES) else None
    _request_verification(outcome, store, [m for m in messages if isinstance(m, CandidatePair)], locations, context)
    near_matches = _verify_candidates(outcome, store, [m for m in messages if isinstance(m, VerifyRequest)], context)
    if locations is not None:
        copies = admit.find_copies(sightings, documents, old_locations)
        identical = [Match(s.document, Location(s.key, s.time), s.document, IDENTICAL) for s in copies]
        outcome.results += near_duplicate_results([*identical, *near_matches], locations, store, partition_count)
    return outcome


def _request_verification(
    outcome: Outcome, store: Store, pairs: Sequence[CandidatePair], locations: Locations | None, context: Context
) -> None:
    """Send the sketches of new documents to the owners of the documents' candidates."""
    documents = sorted({pair.document for pair in pairs})
    rows = {**lookups.read_rows(store, Family.DOCUMENTS, documents), **outcome.changes.puts_of(Family.DOCUMENTS)}
    find_location = locations.earliest if locations is not None else None
    requests, dropped = gather.gather(pairs, rows, context.candidates_max, find_location)
    outcome.queue(requests)
    outcome.counts["candidates_dropped"] += dropped


def _verify_candidates(
    outcome: Outcome, store: Store, requests: Sequence[VerifyRequest], context: Context
) -> list[Match]:
    """Write edges and send unions. If results are enabled, return the closest near-duplicate of each document."""
    sketches = {r.document: document_row.decode(r.document, r.row).sketch for r in requests}
    new_rows: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    for document, row in outcome.changes.puts_of(Family.DOCUMENTS).items():
        new_rows[document[:PREFIX_BYTES]][document] = row
    prefixes = sorted({request.prefix for request in requests})
    candidates = {
        prefix: [document_row.decode(*row).sketch for row in (dict(stored) | new_rows.get(prefix, {})).items()]
        for prefix, stored in zip(prefixes, store.rows_under(Family.DOCUMENTS, prefixes), strict=True)
    }
    pairs = [CandidatePair(request.document, request.prefix, collisions=0) for request in requests]
    result = verify.verify(pairs, sketches, candidates, context.settings.policy.threshold)
    outcome.queue(result.unions)
    outcome.changes.update(result.changes)
    outcome.counts.update(pairs_verified=result.pairs_compared, edges=len(result.changes.puts_of(Family.EDGES)))
    if result.near_pairs is None or not context.writes_results(Topic.NEAR_DUPLICATES):
        return []
    locations = {request.document: Location(request.key, request.time) for request in requests}
    closest = verify.find_closest(result.near_pairs, locations)
    return [Match(document, locations[document], *match) for document, match in closest.items()]


def process_buckets(partition: Partition, probes: Sequence[BucketProbe], context: Context) -> Outcome:
    """Add postings, and send candidate pairs to the owners of the new documents."""
    outcome = Outcome(context)
    limits = context.settings.limits
    batch = probe.group_buckets(probes, context.bucket_bytes)
    result = probe.probe(
        batch,
        partition.store.get_many(Family.BANDS, batch.keys),
        postings_max=limits.bucket_postings_max,
        candidates_max=context.candidates_max,
    )
    outcome.queue(result.pairs)
    outcome.changes = result.changes
    if result.postings_dropped:
        meta.put_full_bucket_size(outcome.changes, limits.bucket_postings_max)
    outcome.counts.update(
        pairs=len(result.pairs),
        bucket_postings_dropped=result.postings_dropped,
        candidates_dropped=result.candidates_dropped,
    )
    return outcome


def process_joins(partition: Partition, messages: Sequence[join.Message], context: Context) -> Outcome:
    """Run the union-find steps of this partition, and forward the steps of other partitions.

    All local steps that follow from a message run before the next message. The result therefore does not depend on
    how the log is divided into batches.
    """
    outcome = Outcome(context)
    forest = Forest(partition.store, outcome.changes)

    def is_local(message: join.Message) -> bool:
        return routing.destination(message, context.bucket_bytes, context.partition_count)[1] == partition.number

    for message in messages:
        if (remote_message := forest.run(message, is_local)) is not None:
            outcome.queue(_split_transfer(remote_message))
    outcome.counts["unions"] += len(forest.transfers)
    if context.writes_results(Topic.CLUSTERS):
        for transfer in forest.transfers:
            members = transfer.members  # the former root first
            outcome.results.append(joined_result(members[0], transfer.root, len(members), partition.number))
    return outcome


def _split_transfer(message: join.Message) -> list[join.Message]:
    """Split a transfer with a long member list into several transfers. Return a union unchanged."""
    if isinstance(message, join.Union):
        return [message]
    starts = range(0, len(message.members), TRANSFER_MEMBERS_MAX)
    return [join.MemberTransfer(message.root, message.members[i : i + TRANSFER_MEMBERS_MAX]) for i in starts]


def process_retractions(partition: Partition, retractions: Sequence[Retraction], context: Context) -> Outcome:
    """Apply retractions, which delete or overwrite rows, in the order of the log."""
    outcome = Outcome(context)
    outcome.is_retraction = True
    for retraction in retractions:
        _, changes = changelog_record.decode(retraction.record)
        if retraction.parents is not None:
            _preserve_new_parents(changes, retraction.parents, outcome.changes, partition.store)
        if retraction.postings is not None:
            _preserve_new_postings(changes, set(retraction.postings), outcome.changes, partition.store)
        outcome.changes.update(changes)
    delete_links(partition.store, outcome.changes)
    if context.writes_results(Topic.CLUSTERS):
        outcome.results += retraction_results(outcome.changes, partition.store, partition.number)
    outcome.counts.update(retractions=len(retractions))
    return outcome


def _preserve_new_parents(
    changes: Changes, parents: Mapping[bytes, bytes], earlier_changes: Changes, store: RowReader
) -> None:
    """Drop changes to pointers that a union has set since `changes` was computed from the pointers `parents`."""
    deletes, puts = changes.deletes.get(Family.PARENTS, set()), changes.puts_of(Family.PARENTS)
    for document, current_parent in _current_rows(Family.PARENTS, deletes | puts.keys(), earlier_changes, store):
        if current_parent not in (None, parents.get(document)):
            deletes.discard(document)
            puts.pop(document, None)


def _preserve_new_postings(
    changes: Changes, deleted_prefixes: Collection[bytes], earlier_changes: Changes, store: RowReader
) -> None:
    """Make `changes` remove only postings of deleted documents, so that postings added in the meantime stay."""
    replacements = dict.fromkeys(changes.deletes.get(Family.BANDS, ()), b"") | changes.puts_of(Family.BANDS)
    for bucket, row in _current_rows(Family.BANDS, replacements, earlier_changes, store):
        current, replacement = row or b"", replacements[bucket]
        remaining = {prefix for prefix in posting_list.decode(current) if prefix not in deleted_prefixes}
        remaining |= set(posting_list.decode(replacement))
        # Keep no more postings than the longer of the two lists, so that a full bucket stays within its limit.
        postings_max = max(len(current), len(replacement)) // PREFIX_BYTES
        if remaining:
            changes.put(Family.BANDS, bucket, posting_list.encode(sorted(remaining)[:postings_max]))


def _current_rows(
    family: Family, keys: Collection[bytes], earlier_changes: Changes, store: RowReader
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield each key with its row after the changes of earlier messages in this batch."""
    deleted_keys, new_rows = earlier_changes.deletes.get(family, set()), earlier_changes.puts_of(family)
    sorted_keys = sorted(keys)
    for key, stored_row in zip(sorted_keys, store.get_many(family, sorted_keys), strict=True):
        yield key, new_rows.get(key) or (None if key in deleted_keys else stored_row)


STAGES: dict[Topic, Callable[[Partition, Sequence[Any], Context], Outcome]] = {
    Topic.CAPTURES: process_captures,
    Topic.DOCUMENTS: process_documents,
    Topic.BUCKETS: process_buckets,
    Topic.JOINS: process_joins,
    Topic.RETRACTIONS: process_retractions,
}
