"""The operators over one partition: values of a message in, sends and changes out. No broker in here.

Each function reads the partition's store and returns an Outcome; whoever calls it sends, then writes.
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
from state.store import Store
from streams.kafka.wire.packed_messages import TOPIC_OF_ROUTE, Retraction, Topic
from streams.kafka.wire.result_messages import Result
from streams.kafka.worker import results
from streams.operators import admit, capture, forest, gather, join, lookups, probe, routing, verify
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest
from streams.page import Rejected
from streams.settings import Settings

CANDIDATES_SLACK = 4
MEMBERS_A_HANDOVER = 5_000  # 80 kB: larger lists change hands in several messages


class Outcome:
    """What a batch comes to: values by topic and partition, changes of the state, refusals, counts."""

    def __init__(self) -> None:
        self.sends: defaultdict[tuple[Topic, int], list[msgspec.Struct]] = defaultdict(list)
        self.changes = Changes()
        self.retraction = False
        self.rejected: list[Rejected] = []
        self.results: list[Result] = []
        self.counts: Counter[str] = Counter()

    def send(self, values: Iterable[routing.Message], context: Context) -> None:
        """Address values to their owners."""
        for value in values:
            topic, number = routing.destination(value, context.bucket_bytes, context.partitions)
            self.sends[TOPIC_OF_ROUTE[topic], number].append(value)


class Context(msgspec.Struct, frozen=True):
    """What all stages of a worker share."""

    settings: Settings
    partitions: int

    @property
    def candidates_max(self) -> int:
        """Candidates of a document that one owner names, or asks in one batch.

        An owner knows a part of the bands, and a batch a part of the pairs: where they cut as sharply as an engine
        that knows all, the answer would hang on how bands and log are cut. So they cut well above.
        """
        return self.settings.limits.candidates_max * max(CANDIDATES_SLACK, self.partitions)

    def reports(self, topic: Topic) -> bool:
        """Whether this topic of results is written."""
        return topic.value in self.settings.kafka.results

    @property
    def bucket_bytes(self) -> int:
        """Bytes of a bucket."""
        return self.settings.scheme.bucket_bytes


def sketched(pages: Sequence[SketchedPage], context: Context) -> Outcome:
    """Send sketched pages to the owners of their URLs; a revisit first to the owner of the URL that it repeats."""
    outcome = Outcome()
    outcome.send(pages, context)
    return outcome


def captures(partition: Partition, pages: Sequence[SketchedPage], context: Context) -> Outcome:
    """Write captures; send documents that are new at their URL, and resolved revisits to their own URL's owner."""
    outcome = Outcome()
    store = partition.store
    resolved = capture.resolve(pages, lookups.captures_before(store, capture.revisit_lookups(pages)))
    own: list[SketchedPage] = []
    for page in resolved.pages:
        if routing.partition_of(page.capture.key, context.partitions) == partition.number:
            own.append(page)
        else:
            outcome.send([page], context)
    captured = capture.capture(own, lookups.last_captures(store, capture.needs(own)))
    outcome.send(captured.sightings, context)
    outcome.changes = captured.changes
    outcome.rejected += resolved.unresolved
    outcome.counts.update(captures=len(captured.captures), unchanged=captured.unchanged)
    return outcome


def documents(partition: Partition, values: Sequence[Any], context: Context) -> Outcome:
    """Keep new documents and send their buckets; ask candidates' owners; answer as one, and send unions.

    One topic for the three, so that whoever is nominated lies in its owner's log before anything that asks for it.
    """
    outcome = Outcome()
    store = partition.store
    sightings = [value for value in values if isinstance(value, Sighting)]
    known, located, texts = lookups.admission(store, sightings)
    admitted = admit.admit(sightings, known, located, texts)
    for new in admitted.new:
        shares = routing.bucket_probes(new.document, new.buckets, context.bucket_bytes, context.partitions)
        outcome.send(shares, context)
    outcome.changes = admitted.changes
    rows = outcome.changes.family(Family.DOCUMENTS)
    where = results.Places(store, outcome.changes) if context.reports(Topic.NEAR_DUPLICATES) else None
    if where is not None:
        copied = admit.copies(sightings, known, located)
        outcome.results += results.copies(copied, where, store, context.partitions)

    pairs = [value for value in values if isinstance(value, CandidatePair)]
    asking = sorted({pair.document for pair in pairs})
    held = {**lookups.known(store, Family.DOCUMENTS, asking), **rows}
    place = where.first if where is not None else gather.no_page
    questions, candidates_dropped = gather.gather(pairs, held, context.candidates_max, place)
    outcome.send(questions, context)

    asked = [value for value in values if isinstance(value, VerifyRequest)]
    verified = _verified(store, asked, rows, context)
    if where is not None and verified.near is not None:
        pages = {question.document: (question.key, question.time) for question in asked}
        found = verify.closest(verified.near, pages)
        near = ((document, pages[document], *closest) for document, closest in found.items())
        outcome.results += results.near_duplicates(near, where, store, context.partitions)
    outcome.send(verified.unions, context)
    outcome.changes.update(verified.changes)
    outcome.counts.update(
        sightings=len(sightings),
        documents=len(admitted.new),
        candidates_dropped=candidates_dropped,
        pairs_verified=verified.compared,
        edges=len(verified.changes.puts.get(Family.EDGES, ())),
    )
    return outcome


def _verified(
    store: Store, questions: Sequence[VerifyRequest], rows: Mapping[bytes, bytes], context: Context
) -> verify.Verified:
    """Compare with candidates that are stored, or new in this batch (`rows`); edges stay at the candidate's owner."""
    asking = {q.document: document_row.decode(q.document, q.row).sketch for q in questions}
    wanted = sorted({question.prefix for question in questions})
    new: defaultdict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    for document, row in rows.items():
        new[document[:PREFIX_BYTES]][document] = row
    candidates = {
        prefix: [document_row.decode(*row).sketch for row in (dict(stored) | new.get(prefix, {})).items()]
        for prefix, stored in zip(wanted, store.scan_prefixes(Family.DOCUMENTS, wanted), strict=True)
    }
    pairs = [CandidatePair(question.document, question.prefix, 0) for question in questions]
    return verify.verify(pairs, asking, candidates, context.settings.policy.threshold)


def buckets(partition: Partition, new: Sequence[BucketProbe], context: Context) -> Outcome:
    """Add postings; send who met whom to the owners of the new documents."""
    outcome = Outcome()
    limits = context.settings.limits
    batch = probe.arrange(new, context.bucket_bytes)
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


def joins(partition: Partition, messages: Sequence[join.Union | join.MemberTransfer], context: Context) -> Outcome:
    """Take every step of the union-find whose node this partition owns; send the other messages to their owners.

    The messages that follow from a message are taken before the next one, so that the result does not depend on how
    the log is cut into batches.
    """
    outcome = Outcome()
    tree = forest.Forest(partition.store, outcome.changes)

    def is_local(message: forest.Message) -> bool:
        return routing.destination(message, context.bucket_bytes, context.partitions)[1] == partition.number

    for message in messages:
        for outgoing in tree.run([message], is_local):
            outcome.send(_split(outgoing), context)
    outcome.counts["unions"] += len(tree.links)
    if context.reports(Topic.CLUSTERS):
        for link in tree.links:
            joined = results.joined(link.members[0], link.root, len(link.members), partition.number)
            outcome.results.append(joined)
    return outcome


def _split(message: forest.Message) -> Sequence[forest.Message]:
    """Split a transfer of more members than one message may have."""
    if isinstance(message, join.Union):
        return [message]
    members = message.members
    starts = range(0, len(members), MEMBERS_A_HANDOVER)
    return [join.MemberTransfer(message.root, members[at : at + MEMBERS_A_HANDOVER]) for at in starts]


def retractions(partition: Partition, given: Sequence[Retraction], context: Context) -> Outcome:
    """Take changes that overwrite, in their order."""
    outcome = Outcome()
    outcome.retraction = True
    for each in given:
        _, changes = changelog_record.decode(each.record)
        if each.parents is not None:
            _keep_new_pointers(changes, each.parents, outcome.changes, partition.store)
        if each.postings is not None:
            _keep_new_postings(changes, set(each.postings), outcome.changes, partition.store)
        outcome.changes.update(changes)
    if context.reports(Topic.CLUSTERS):
        outcome.results += results.retracted(outcome.changes, partition.store, partition.number)
    outcome.counts.update(retractions=len(given))
    return outcome


def _keep_new_pointers(changes: Changes, parents: Mapping[bytes, bytes], before: Changes, store: Store) -> None:
    """Leave out pointers that a union has set since the changes were computed: it would be lost."""
    deletes, puts = changes.deletes.get(Family.PARENTS, set()), changes.family(Family.PARENTS)
    cleared, held = before.deletes.get(Family.PARENTS, set()), before.family(Family.PARENTS)
    nodes = sorted(deletes | puts.keys())
    for node, stored in zip(nodes, store.get_many(Family.PARENTS, nodes), strict=True):
        parent = held.get(node) or (None if node in cleared else stored)
        if parent not in (None, parents.get(node)):
            deletes.discard(node)
            puts.pop(node, None)


def _keep_new_postings(changes: Changes, going: Collection[bytes], before: Changes, store: Store) -> None:
    """Let stay what a bucket holds of others than those who go: it came since the changes were computed."""
    cleared, held = before.deletes.get(Family.BANDS, set()), before.family(Family.BANDS)
    given = dict.fromkeys(changes.deletes.get(Family.BANDS, ()), b"") | changes.family(Family.BANDS)
    buckets = sorted(given)
    for bucket, stored in zip(buckets, store.get_many(Family.BANDS, buckets), strict=True):
        there = held.get(bucket) or (None if bucket in cleared else stored) or b""
        left = {prefix for prefix in posting_list.decode(there) if prefix not in going} | set(
            posting_list.decode(given[bucket])
        )
        # A bucket that was full stays as long as it was.
        longest = max(len(there), len(given[bucket])) // PREFIX_BYTES
        if left:
            changes.put(Family.BANDS, bucket, posting_list.encode(sorted(left)[:longest]))


Stage = Callable[[Partition, Sequence[Any], Context], Outcome]
STAGES: dict[Topic, Stage] = {
    Topic.CAPTURES: captures,
    Topic.DOCUMENTS: documents,
    Topic.BUCKETS: buckets,
    Topic.JOINS: joins,
    Topic.RETRACTIONS: retractions,
}
