"""Applies the operators to the messages of one partition. Nothing here talks to the broker.

Each stage reads the partition's store and returns an Outcome. The caller sends its messages, then writes its changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from state import meta
from state.changes import Changes
from state.codecs import changelog_record, document_row, posting_list
from state.families import Family
from state.model import PREFIX_BYTES
from state.partition import Partition
from state.rows import RowReader
from state.store import Store
from streams.kafka.wire.packed_messages import Retraction, Topic
from streams.kafka.wire.result_messages import Result
from streams.kafka.worker import results
from streams.operators import admit, capture, gather, join, lookups, probe, routing, verify
from streams.operators.forest import Forest
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest
from streams.page import Rejected
from streams.settings import Settings

CANDIDATES_SLACK = 4
TRANSFER_MEMBERS_MAX = 5_000  # 80 kB; larger member lists are transferred in several messages


class Outcome:
    """The results of a batch: messages to send, changes of the state, dead letters and counts."""

    def __init__(self) -> None:
        self.sends: defaultdict[tuple[Topic, int], list[msgspec.Struct]] = defaultdict(list)
        self.changes = Changes()
        self.retraction = False
        self.rejected: list[Rejected] = []
        self.results: list[Result] = []
        self.counts: Counter[str] = Counter()  # by the names of `metrics.COUNTERS`

    def send(self, messages: Iterable[routing.Message], context: Context) -> None:
        """Address messages to the partitions that own their keys."""
        for message in messages:
            stage, number = routing.destination(message, context.bucket_bytes, context.partitions)
            self.sends[Topic(stage), number].append(message)


class Context(msgspec.Struct, frozen=True):
    """What all stages of a worker share."""

    settings: Settings
    partitions: int

    @property
    def candidates_max(self) -> int:
        """Candidates of a document that one owner nominates, or requests to verify in one batch.

        An owner sees only part of a document's buckets, and a batch only part of its pairs. If both applied
        `limits.candidates_max` itself, the result would depend on how buckets and log are divided. Their limit is
        therefore well above it.
        """
        return self.settings.limits.candidates_max * max(CANDIDATES_SLACK, self.partitions)

    @property
    def bucket_bytes(self) -> int:
        """Bytes per bucket key."""
        return self.settings.scheme.bucket_bytes

    def writes_results(self, topic: Topic) -> bool:
        """Return whether this result topic is enabled."""
        return topic.value in self.settings.kafka.results


def route_pages(pages: Sequence[SketchedPage], context: Context) -> Outcome:
    """Send sketched pages to the owners of their URLs; a revisit goes to the owner of the URL that it repeats."""
    outcome = Outcome()
    outcome.send(pages, context)
    return outcome


def process_captures(partition: Partition, pages: Sequence[SketchedPage], context: Context) -> Outcome:
    """Write captures and send documents that are new at their URL.

    A resolved revisit is sent to the owner of its own URL, unless that is this partition.
    """
    outcome = Outcome()
    store = partition.store
    resolved = capture.resolve(pages, lookups.read_captures_before(store, capture.revisit_instants(pages)))
    own: list[SketchedPage] = []
    for page in resolved.pages:
        if routing.partition_of(page.capture.key, context.partitions) == partition.number:
            own.append(page)
        else:
            outcome.send([page], context)
    captured = capture.capture(own, lookups.read_last_captures(store, capture.needs(own)))
    outcome.send(captured.sightings, context)
    outcome.changes = captured.changes
    outcome.rejected += resolved.unresolved
    outcome.counts.update(captures=len(captured.captures), unchanged=captured.unchanged)
    return outcome


def process_documents(partition: Partition, messages: Sequence[Any], context: Context) -> Outcome:
    """Store new documents, request the verification of their candidates, and verify candidates stored here.

    The three kinds of message share one topic, so that in its owner's log a candidate always precedes the requests to
    verify it.
    """
    outcome = Outcome()
    store = partition.store
    copies = _admit_sightings(outcome, store, [m for m in messages if isinstance(m, Sighting)], context)
    places = results.Places(store, outcome.changes) if context.writes_results(Topic.NEAR_DUPLICATES) else None
    if places is not None:
        outcome.results += results.copies(copies, places, store, context.partitions)
    _request_verification(outcome, store, [m for m in messages if isinstance(m, CandidatePair)], places, context)
    _verify_candidates(outcome, store, [m for m in messages if isinstance(m, VerifyRequest)], places, context)
    return outcome


def _admit_sightings(
    outcome: Outcome, store: Store, sightings: Sequence[Sighting], context: Context
) -> list[Sighting]:
    """Store new documents and send their buckets; return the sightings of documents known from other URLs."""
    documents, locations, texts = lookups.read_admission_rows(store, sightings)
    admitted = admit.admit(sightings, documents, locations, texts)
    for new in admitted.new:
        outcome.send(
            routing.bucket_probes(new.document, new.buckets, context.bucket_bytes, context.partitions), context
        )
    outcome.changes = admitted.changes
    outcome.counts.update(sightings=len(sightings), documents=len(admitted.new))
    return admit.find_copies(sightings, documents, locations)


def _request_verification(
    outcome: Outcome,
    store: Store,
    pairs: Sequence[CandidatePair],
    places: results.Places | None,
    context: Context,
) -> None:
    """Send the sketches of new documents to the owners of their candidates."""
    documents = sorted({pair.document for pair in pairs})
    rows = {**lookups.read_rows(store, Family.DOCUMENTS, documents), **outcome.changes.family(Family.DOCUMENTS)}
    first_page = places.first if places is not None else gather.no_page
    requests, dropped = gather.gather(pairs, rows, context.candidates_max, first_page)
    outcome.send(requests, context)
    outcome.counts["candidates_dropped"] += dropped


def _verify_candidates(
    outcome: Outcome,
    store: Store,
    requests: Sequence[VerifyRequest],
    places: results.Places | None,
    context: Context,
) -> None:
    """Compare documents with the candidates stored here; write edges and send unions."""
    verified = _verify(store, requests, outcome.changes.family(Family.DOCUMENTS), context)
    if places is not None and verified.near is not None:
        pages = {request.document: (request.key, request.time) for request in requests}
        closest = verify.find_closest(verified.near, pages)
        near = ((document, pages[document], *match) for document, match in closest.items())
        outcome.results += results.near_duplicates(near, places, store, context.partitions)
    outcome.send(verified.unions, context)
    outcome.changes.update(verified.changes)
    outcome.counts.update(pairs_verified=verified.compared, edges=len(verified.changes.puts.get(Family.EDGES, ())))


def _verify(
    store: Store, requests: Sequence[VerifyRequest], new_rows: Mapping[bytes, bytes], context: Context
) -> verify.VerifyResult:
    """Compare documents with candidates that are stored or are new in this batch (`new_rows`)."""
    sketches = {r.document: document_row.decode(r.document, r.row).sketch for r in requests}
    prefixes = sorted({request.prefix for request in requests})
    new: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    for document, row in new_rows.items():
        new[document[:PREFIX_BYTES]][document] = row
    candidates = {
        prefix: [document_row.decode(*row).sketch for row in (dict(stored) | new.get(prefix, {})).items()]
        for prefix, stored in zip(prefixes, store.scan_prefixes(Family.DOCUMENTS, prefixes), strict=True)
    }
    pairs = [CandidatePair(request.document, request.prefix, 0) for request in requests]
    return verify.verify(pairs, sketches, candidates, context.settings.policy.threshold)


def process_buckets(partition: Partition, probes: Sequence[BucketProbe], context: Context) -> Outcome:
    """Add postings; send candidate pairs to the owners of the new documents."""
    outcome = Outcome()
    limits = context.settings.limits
    batch = probe.group_buckets(probes, context.bucket_bytes)
    probed = probe.probe(
        batch,
        partition.store.get_many(Family.BANDS, batch.keys),
        postings_max=limits.bucket_postings_max,
        candidates_max=context.candidates_max,
    )
    outcome.send(probed.pairs, context)
    outcome.changes = probed.changes
    if probed.postings_dropped:
        meta.put_full_buckets(outcome.changes, limits.bucket_postings_max)
    outcome.counts.update(
        pairs=len(probed.pairs),
        bucket_postings_dropped=probed.postings_dropped,
        candidates_dropped=probed.candidates_dropped,
    )
    return outcome


def process_joins(
    partition: Partition, messages: Sequence[join.Union | join.MemberTransfer], context: Context
) -> Outcome:
    """Take all steps of the union-find that this partition can take; send on the messages that others own.

    All that follows from a message is done before the next one, so the result does not depend on how the log is cut
    into batches.
    """
    outcome = Outcome()
    forest = Forest(partition.store, outcome.changes)

    def is_local(message: join.Union | join.MemberTransfer) -> bool:
        _, owner = routing.destination(message, context.bucket_bytes, context.partitions)
        return owner == partition.number

    for message in messages:
        outcome.send(_split_transfers(forest.run([message], is_local)), context)
    outcome.counts["unions"] += len(forest.links)
    if context.writes_results(Topic.CLUSTERS):
        for link in forest.links:
            node = link.members[0]
            outcome.results.append(results.joined(node, link.root, len(link.members), partition.number))
    return outcome


def _split_transfers(
    messages: Iterable[join.Union | join.MemberTransfer],
) -> Iterable[join.Union | join.MemberTransfer]:
    """Yield messages, with long member lists cut into several transfers."""
    for message in messages:
        if isinstance(message, join.MemberTransfer):
            for start in range(0, len(message.members), TRANSFER_MEMBERS_MAX):
                yield join.MemberTransfer(message.root, message.members[start : start + TRANSFER_MEMBERS_MAX])
        else:
            yield message


def process_retractions(partition: Partition, retractions: Sequence[Retraction], context: Context) -> Outcome:
    """Apply changes that delete or overwrite rows, in order."""
    outcome = Outcome()
    outcome.retraction = True
    for retraction in retractions:
        _, changes = changelog_record.decode(retraction.record)
        if retraction.parents is not None:
            _preserve_new_parents(changes, retraction.parents, outcome.changes, partition.store)
        if retraction.postings is not None:
            _preserve_new_postings(changes, set(retraction.postings), outcome.changes, partition.store)
        outcome.changes.update(changes)
    if context.writes_results(Topic.CLUSTERS):
        outcome.results += results.retracted(outcome.changes, partition.store, partition.number)
    outcome.counts.update(retractions=len(retractions))
    return outcome


def _preserve_new_parents(
    changes: Changes, parents: Mapping[bytes, bytes], earlier: Changes, store: RowReader
) -> None:
    """Drop changes of parents that a union has set since the changes were computed.

    `parents` are the parents that the changes were computed from, `earlier` the changes of this batch so far.
    """
    deletes, puts = changes.deletes.get(Family.PARENTS, set()), changes.family(Family.PARENTS)
    deleted, written = earlier.deletes.get(Family.PARENTS, set()), earlier.family(Family.PARENTS)
    nodes = sorted(deletes | puts.keys())
    for node, stored in zip(nodes, store.get_many(Family.PARENTS, nodes), strict=True):
        parent = written.get(node) or (None if node in deleted else stored)
        if parent not in (None, parents.get(node)):
            deletes.discard(node)
            puts.pop(node, None)


def _preserve_new_postings(
    changes: Changes, deleted_documents: Collection[bytes], earlier: Changes, store: RowReader
) -> None:
    """Keep postings added since the changes were computed; remove only those of deleted documents.

    `deleted_documents` are prefixes of document ids, `earlier` are the changes of this batch so far.
    """
    deleted, written = earlier.deletes.get(Family.BANDS, set()), earlier.family(Family.BANDS)
    replacements = dict.fromkeys(changes.deletes.get(Family.BANDS, ()), b"") | changes.family(Family.BANDS)
    buckets = sorted(replacements)
    for bucket, stored in zip(buckets, store.get_many(Family.BANDS, buckets), strict=True):
        current = written.get(bucket) or (None if bucket in deleted else stored) or b""
        remaining = {prefix for prefix in posting_list.decode(current) if prefix not in deleted_documents}
        remaining |= set(posting_list.decode(replacements[bucket]))
        # No longer than the longer of the two lists, so that a full bucket stays within its limit.
        postings_max = max(len(current), len(replacements[bucket])) // PREFIX_BYTES
        if remaining:
            changes.put(Family.BANDS, bucket, posting_list.encode(sorted(remaining)[:postings_max]))


Stage = Callable[[Partition, Sequence[Any], Context], Outcome]
STAGES: dict[Topic, Stage] = {
    Topic.CAPTURES: process_captures,
    Topic.DOCUMENTS: process_documents,
    Topic.BUCKETS: process_buckets,
    Topic.JOINS: process_joins,
    Topic.RETRACTIONS: process_retractions,
}
