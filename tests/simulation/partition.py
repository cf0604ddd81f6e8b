"""What the owner of one partition of one topic does with a batch: the operators, over the rows that it owns.

A model for an engine that spreads them: it reads rows, calls the operators, and returns what they change and send. It
writes and sends nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from state.changes import Changes
from state.codecs import capture_row, document_row
from state.families import Family
from state.model import ID_BYTES, Capture, Sketch
from state.scheme import Scheme
from streams.operators import admit, capture, gather, join, probe, routing, verify
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest
from streams.operators.routing import Message, Stage
from tests.memory import MemoryStore


class Rules(NamedTuple):
    """What all partitions agree on."""

    scheme: Scheme
    partitions: int
    threshold: float = 0.5
    postings_max: int = 10_000
    candidates_max: int = 10_000


class Step(NamedTuple):
    """What a batch changes and sends, and which limits bit."""

    changes: Changes
    outputs: list[Message]
    limits: Counter[str]


def step(stage: Stage, number: int, messages: Sequence[Message], rows: MemoryStore, rules: Rules) -> Step:
    """Process a batch of one stage at partition `number`."""
    match stage:
        case Stage.CAPTURES:
            return _pages([m for m in messages if isinstance(m, SketchedPage)], number, rows, rules)
        case Stage.DOCUMENTS:
            return _documents(messages, rows, rules)
        case Stage.BUCKETS:
            return _buckets([m for m in messages if isinstance(m, BucketProbe)], rows, rules)
        case Stage.JOINS:
            return _joins([m for m in messages if isinstance(m, join.Union | join.MemberTransfer)], rows)


def _pages(pages: Sequence[SketchedPage], number: int, rows: MemoryStore, rules: Rules) -> Step:
    before: dict[capture.Instant, list[Capture]] = {}
    for instant in capture.revisit_instants(pages):
        key, sweep, time, _ = instant
        start = capture_row.encode_key(key, sweep, time, capture_row.TIE_MAX)
        found = rows.scan_reverse(Family.CAPTURES, capture_row.history_prefix(key), start)
        before[instant] = [capture_row.decode(*row) for row in found]
    resolved, _ = capture.resolve(pages, before)
    own: list[SketchedPage] = []
    elsewhere: list[SketchedPage] = []
    for page in resolved:
        mine = routing.partition_of(page.capture.key, rules.partitions) == number
        (own if mine else elsewhere).append(page)
    keys = capture.needs(own)
    found_last = rows.last_under(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
    last = {key: capture_row.decode(*row) for key, row in zip(keys, found_last, strict=True) if row}
    captured = capture.capture(own, last)
    return Step(captured.changes, [*captured.sightings, *elsewhere], Counter())


def _documents(messages: Sequence[Message], rows: MemoryStore, rules: Rules) -> Step:
    sightings = [m for m in messages if isinstance(m, Sighting)]
    ids, places = admit.needs(sightings)
    known = {key: value for key in ids if (value := rows.get(Family.DOCUMENTS, key)) is not None}
    located = {key: value for key in places if (value := rows.get(Family.LOCATIONS, key)) is not None}
    texts = {key: value for key in known if (value := rows.get(Family.TEXTS, key)) is not None}
    changes, admitted = admit.admit(sightings, known, located, texts)
    limits = Counter[str]()
    outputs: list[Message] = []
    width = rules.scheme.bucket_bytes
    for payload in admitted:
        outputs += routing.bucket_probes(payload.document, payload.buckets, width, rules.partitions)

    new = changes.family(Family.DOCUMENTS)
    pairs = [m for m in messages if isinstance(m, CandidatePair)]
    asking = {
        pair.document: value
        for pair in pairs
        if (value := new.get(pair.document) or rows.get(Family.DOCUMENTS, pair.document)) is not None
    }
    questions, limits["candidates_max"] = gather.gather(pairs, asking, rules.candidates_max)
    outputs += questions

    answered = _verify([m for m in messages if isinstance(m, VerifyRequest)], rows, new, rules)
    changes.update(answered.changes)
    return Step(changes, [*outputs, *answered.unions], limits)


def _verify(
    questions: Sequence[VerifyRequest], rows: MemoryStore, new: dict[bytes, bytes], rules: Rules
) -> verify.VerifyResult:
    asking = {q.document: document_row.decode(q.document, q.row).sketch for q in questions}
    candidates: dict[bytes, list[Sketch]] = {}
    for prefix in {q.prefix for q in questions}:
        held = dict(rows.scan(Family.DOCUMENTS, prefix))
        held.update((key, value) for key, value in new.items() if key.startswith(prefix))
        candidates[prefix] = [document_row.decode(key, value).sketch for key, value in held.items()]
    pairs = [CandidatePair(q.document, q.prefix, 1) for q in questions]
    return verify.verify(pairs, asking, candidates, rules.threshold)


def _buckets(messages: Sequence[BucketProbe], rows: MemoryStore, rules: Rules) -> Step:
    batch = probe.group_buckets(messages, rules.scheme.bucket_bytes)
    held = rows.get_many(Family.BANDS, batch.keys)
    probed = probe.probe(batch, held, postings_max=rules.postings_max, candidates_max=rules.candidates_max)
    limits = Counter(bucket_postings_max=probed.postings_dropped, candidates_max=probed.candidates_dropped)
    return Step(probed.changes, list(probed.pairs), limits)


def _joins(messages: Sequence[join.Union | join.MemberTransfer], rows: MemoryStore) -> Step:
    changes = Changes()
    outputs: list[Message] = []
    batch = rows.copy(Family.PARENTS, Family.MEMBERS) if len(messages) > 1 else rows
    for message in messages:
        if isinstance(message, join.Union):
            members = [key[ID_BYTES:] for key, _ in batch.scan(Family.MEMBERS, message.larger)]
            step_changes, following = join.union_step(message, batch.get(Family.PARENTS, message.larger), members)
        else:
            step_changes, following = join.transfer_step(message, batch.get(Family.PARENTS, message.root))
        changes.update(step_changes)
        if following is not None:
            outputs.append(following)
        if batch is not rows:
            batch.merge(step_changes)
    return Step(changes, outputs, Counter())


def clusters(partitions: Sequence[MemoryStore]) -> dict[bytes, set[bytes]]:
    """Documents by root, as the pointers of all partitions say."""
    parents = dict(row for rows in partitions for row in rows.scan(Family.PARENTS))
    documents = {key for rows in partitions for key, _ in rows.scan(Family.DOCUMENTS)} | parents.keys()
    found: dict[bytes, set[bytes]] = {}
    for node in documents:
        root = node
        while root in parents:
            root = parents[root]
        found.setdefault(root, {root}).add(node)
    return found


def members(partitions: Sequence[MemoryStore], roots: set[bytes]) -> dict[bytes, set[bytes]]:
    """What is listed under each of these roots, and the root."""
    found = {root: {root} for root in roots}
    for rows in partitions:
        for key, _ in rows.scan(Family.MEMBERS):
            if key[:ID_BYTES] in roots:
                found[key[:ID_BYTES]].add(key[ID_BYTES:])
    return found
