"""Process a batch of one stage at one partition, as a distributed engine would.

The functions read rows, call the operators, and return changes and messages; they write and send nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from state.changes import Changes
from state.codecs import capture_row, document_row
from state.families import Family
from state.model import ID_BYTES, Capture, Decision, Sketch
from state.scheme import Scheme
from streams.operators import admit, capture, decide, gather, join, link, lookups, probe, routing, verify
from streams.operators.messages import BucketProbe, CandidatePair, Sighting, SketchedPage, VerifyRequest
from streams.operators.routing import Message, Stage
from tests.memory import MemoryStore


class Rules(NamedTuple):
    """Settings shared by all partitions."""

    scheme: Scheme
    partitions: int
    threshold: float = 0.5
    postings_max: int = 10_000
    candidates_max: int = 10_000


class Step(NamedTuple):
    """The changes and messages of a batch, and how often it reached each limit."""

    changes: Changes
    outputs: list[Message]
    limits: Counter[str]


def step(stage: Stage, number: int, messages: Sequence[Message], rows: MemoryStore, rules: Rules) -> Step:
    """Process a batch of one stage at partition `number`."""
    match stage:
        case Stage.CAPTURES:
            outcome = _pages([m for m in messages if isinstance(m, SketchedPage)], number, rows, rules)
            outcome.changes.update(_decisions([m for m in messages if isinstance(m, Decision)], rows))
            return outcome
        case Stage.DOCUMENTS:
            return _documents(messages, rows, rules)
        case Stage.BUCKETS:
            return _buckets([m for m in messages if isinstance(m, BucketProbe)], rows, rules)
        case Stage.JOINS:
            return _joins([m for m in messages if isinstance(m, join.Union | join.MemberTransfer)], rows)


def _pages(pages: Sequence[SketchedPage], number: int, rows: MemoryStore, rules: Rules) -> Step:
    captures_before: dict[capture.OriginalQuery, list[Capture]] = {}
    for query in capture.original_queries(pages):
        start = capture_row.encode_key(
            query.original_key, query.revisit_sweep, query.revisit_time, capture_row.TIEBREAKER_MAX
        )
        rows_before = rows.scan_reverse(Family.CAPTURES, capture_row.history_prefix(query.original_key), start)
        captures_before[query] = [capture_row.decode(*row) for row in rows_before]
    resolved, _ = capture.resolve(pages, captures_before)
    owned: list[SketchedPage] = []
    other_pages: list[SketchedPage] = []
    for page in resolved:
        is_owner = routing.partition_of(page.capture.key, rules.partitions) == number
        (owned if is_owner else other_pages).append(page)
    keys = capture.url_keys(owned)
    last_rows = rows.last_rows_under(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
    last = {key: capture_row.decode(*row) for key, row in zip(keys, last_rows, strict=True) if row}
    captured = capture.capture(owned, last)
    stored_chunks = lookups.read_stored_chunks(rows, owned, last)
    captured.changes.update(link.link(owned, last, stored_chunks).changes)
    return Step(captured.changes, [*captured.sightings, *other_pages], Counter())


def _decisions(decisions: Sequence[Decision], rows: MemoryStore) -> Changes:
    return decide.decide(decisions, lookups.read_rows(rows, Family.DECISIONS, decide.row_keys(decisions)))


def _documents(messages: Sequence[Message], rows: MemoryStore, rules: Rules) -> Step:
    sightings = [m for m in messages if isinstance(m, Sighting)]
    ids, location_keys = admit.row_keys(sightings)
    known = {key: value for key in ids if (value := rows.get(Family.DOCUMENTS, key)) is not None}
    located = {key: value for key in location_keys if (value := rows.get(Family.LOCATIONS, key)) is not None}
    texts = {key: value for key in known if (value := rows.get(Family.TEXTS, key)) is not None}
    changes, admitted = admit.admit(sightings, known, located, texts)
    limits = Counter[str]()
    outputs: list[Message] = []
    width = rules.scheme.bucket_bytes
    for payload in admitted:
        outputs += routing.bucket_probes(payload.document, payload.buckets, width, rules.partitions)

    new = changes.puts_of(Family.DOCUMENTS)
    pairs = [m for m in messages if isinstance(m, CandidatePair)]
    rows_by_document = {
        pair.document: value
        for pair in pairs
        if (value := new.get(pair.document) or rows.get(Family.DOCUMENTS, pair.document)) is not None
    }
    requests, limits["candidates_max"] = gather.gather(pairs, rows_by_document, rules.candidates_max)
    outputs += requests

    verified = _verify([m for m in messages if isinstance(m, VerifyRequest)], rows, new, rules)
    changes.update(verified.changes)
    return Step(changes, [*outputs, *verified.unions], limits)


def _verify(
    requests: Sequence[VerifyRequest], rows: MemoryStore, new: dict[bytes, bytes], rules: Rules
) -> verify.VerifyResult:
    sketches = {request.document: document_row.decode(request.document, request.row).sketch for request in requests}
    candidates: dict[bytes, list[Sketch]] = {}
    for prefix in {request.prefix for request in requests}:
        stored = dict(rows.scan(Family.DOCUMENTS, prefix))
        stored.update((key, value) for key, value in new.items() if key.startswith(prefix))
        candidates[prefix] = [document_row.decode(key, value).sketch for key, value in stored.items()]
    pairs = [CandidatePair(request.document, request.prefix, 1) for request in requests]
    return verify.verify(pairs, sketches, candidates, rules.threshold)


def _buckets(messages: Sequence[BucketProbe], rows: MemoryStore, rules: Rules) -> Step:
    batch = probe.group_buckets(messages, rules.scheme.bucket_bytes)
    posting_lists = rows.get_many(Family.BANDS, batch.keys)
    probed = probe.probe(batch, posting_lists, postings_max=rules.postings_max, candidates_max=rules.candidates_max)
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
    """Return the documents by root, according to the parent pointers of all partitions."""
    parents = dict(row for rows in partitions for row in rows.scan(Family.PARENTS))
    documents = {key for rows in partitions for key, _ in rows.scan(Family.DOCUMENTS)} | parents.keys()
    documents_by_root: dict[bytes, set[bytes]] = {}
    for node in documents:
        root = node
        while root in parents:
            root = parents[root]
        documents_by_root.setdefault(root, {root}).add(node)
    return documents_by_root


def members(partitions: Sequence[MemoryStore], roots: set[bytes]) -> dict[bytes, set[bytes]]:
    """Return the member rows of these roots, and the roots themselves."""
    members_by_root = {root: {root} for root in roots}
    for rows in partitions:
        for key, _ in rows.scan(Family.MEMBERS):
            if key[:ID_BYTES] in roots:
                members_by_root[key[:ID_BYTES]].add(key[ID_BYTES:])
    return members_by_root
