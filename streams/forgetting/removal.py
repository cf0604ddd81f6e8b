"""Compute the changes that delete URLs, documents and cancelled sweeps, and rebuild only the affected clusters.

The generators `forget_url`, `forget_document` and `cancel_sweep` write nothing: they yield `Removal` values. The
caller commits the changes of one removal before it resumes the generator, which reads the new state; `apply` does so.
The state is sound after every removal, so a crash between two removals does no harm.

A union-find cannot undo a union. The component of a deleted document is therefore dissolved and joined again from its
remaining edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from state import meta, sweeps
from state.changes import Changes
from state.codecs import capture_row, document_row, location_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, DocumentRow, Sketch, Sweep, SweepState
from state.rows import RowReader
from state.scheme import Scheme
from state.view import View
from streams.forgetting.bucket_refill import unpost
from streams.forgetting.remaining_text import TextsLeft
from streams.forgetting.word_index import Leaving, Unindexing, held_elsewhere
from streams.operators import forest
from streams.sketch.index_terms import index_samples
from streams.urls import host_prefix

CAPTURES_A_BATCH = 2_000


class Removal(msgspec.Struct, frozen=True):
    """Changes that are committed together, and what they remove."""

    changes: Changes
    captures: int = 0
    documents: int = 0
    rejoined: int = 0  # documents that were joined again because their cluster was dissolved


class Forgotten(msgspec.Struct, frozen=True):
    """The totals of all removals of one command."""

    captures: int
    documents: int
    rejoined: int


def apply(removals: Iterable[Removal], commit: Callable[[Changes], None]) -> Forgotten:
    """Commit each removal before the next one is computed; return the totals."""
    captures = documents = rejoined = 0
    for removal in removals:
        commit(removal.changes)
        captures += removal.captures
        documents += removal.documents
        rejoined += removal.rejoined
    return Forgotten(captures, documents, rejoined)


class _Left(msgspec.Struct, frozen=True):
    """What is left of a document, at the URLs that captures of it go from."""

    first_seen: int | None  # ms, at any URL; None: it is at none
    leaving: Leaving
    staying: list[Capture]


def forget_document(reader: RowReader, document: bytes) -> Iterator[Removal]:
    """Remove a document and all captures of it."""
    yield from finish_cancelling(reader)
    view = View(reader)
    captures = [
        capture
        for key in view.locations([document], limit=1 << 62)[0]
        for capture in view.captures(key)
        if capture.document == document
    ]
    yield _remove(reader, captures, Unindexing(reader, view.scheme, lambda _: False), also={document})


def forget_url(reader: RowReader, key: bytes) -> Iterator[Removal]:
    """Remove the captures of a URL key, and the documents that no other URL has or had."""
    yield from finish_cancelling(reader)
    view = View(reader)
    words = Unindexing(reader, view.scheme, lambda capture: capture.key != key)
    yield _remove(reader, view.captures(key), words)


def cancel_sweep(reader: RowReader, sweep: Sweep) -> Iterator[Removal]:
    """Remove everything that a sweep added. After a crash, call it again to resume.

    The first removal marks the sweep as cancelling, which hides its captures from queries; the last one marks it as
    cancelled. Raises LostfoundError for a sweep that is cancelled already.
    """
    changes = Changes()
    sweep = sweeps.begin_cancel(sweep, changes)
    if changes:
        yield Removal(changes)
    start = b""
    words = Unindexing(reader, View(reader).scheme, lambda capture: capture.sweep != sweep.number)
    while captures := _captures_of(reader, sweep.number, start):
        start = capture_row.row_key(captures[-1])
        yield _remove(reader, captures, words)
    changes = Changes()
    sweeps.finish_cancel(reader, sweep, changes)
    yield Removal(changes)


def finish_cancelling(reader: RowReader) -> Iterator[Removal]:
    """Finish the cancellations that a crash interrupted.

    Every writer does this before it opens a sweep, ingests or forgets. Queries and commits need not wait for it: the
    remaining captures are hidden. Only the sweep's name is not free yet. The removals count nothing, because the next
    command did not ask for them.
    """
    for sweep in sweeps.all_sweeps(reader):
        if sweep.state is SweepState.CANCELLING:
            for removal in cancel_sweep(reader, sweep):
                yield Removal(removal.changes)


def _captures_of(reader: RowReader, sweep: int, start: bytes) -> list[Capture]:
    found: list[Capture] = []
    for row, value in reader.scan(Family.CAPTURES, start=start):
        if capture_row.decode_key(row)[1] == sweep:
            found.append(capture_row.decode(row, value))
            if len(found) >= CAPTURES_A_BATCH:
                break
    return found


def _remove(
    reader: RowReader, captures: Sequence[Capture], words: Unindexing, also: Collection[bytes] = ()
) -> Removal:
    """Remove captures, the locations that held by them alone, and the documents that are then nowhere."""
    changes = Changes()
    going: dict[bytes, list[Capture]] = {document: [] for document in also}
    for held in captures:
        changes.delete(Family.CAPTURES, capture_row.row_key(held))
        if held.document:
            going.setdefault(held.document, []).append(held)
    _uncount(reader, changes, captures)
    scheme = View(reader).scheme
    gone, leaving = _take_out(reader, changes, scheme, going, also)
    _drop_documents(reader, changes, gone)
    unpost(reader, changes, gone, scheme)
    changes.delete_all(Family.WORDS, words.stale(leaving))
    rejoined = _rejoin(reader, changes, gone)
    totals = Counter(meta.counters(reader))
    totals.update(documents=-len(gone), documents_forgotten=len(gone))
    meta.put_counters(changes, dict(totals))
    return Removal(changes, len(captures), len(gone), rejoined)


def _take_out(
    reader: RowReader,
    changes: Changes,
    scheme: Scheme,
    going: Mapping[bytes, Sequence[Capture]],
    also: Collection[bytes],
) -> tuple[dict[bytes, Sketch], list[Leaving]]:
    """Take documents out of the URLs whose captures go; which of them are then nowhere, and what each leaves."""
    gone: dict[bytes, Sketch] = {}
    leaving: list[Leaving] = []
    texts = TextsLeft(reader, scheme)
    documents = sorted(going)
    for document, value in zip(documents, reader.get_many(Family.DOCUMENTS, documents), strict=True):
        if value is None:
            continue
        row = document_row.decode(document, value)
        left = _left(reader, changes, row, going[document])
        if left.first_seen is None or document in also:
            gone[document] = row.sketch
            leaving.append(Leaving(document, left.leaving.urls, None))
            continue
        leaving.append(left.leaving)
        if left.first_seen != row.first_seen:
            changes.put(Family.DOCUMENTS, document, document_row.seen_at(value, left.first_seen))
        known = {held.key for held in going[document]}
        staying = chain(left.staying, held_elsewhere(reader, document, known))
        if text := texts.of(row.sketch, going[document], staying):
            changes.put(Family.TEXTS, document, text)
        elif text is not None:
            changes.delete(Family.TEXTS, document)
    return gone, leaving


def _uncount(reader: RowReader, changes: Changes, captures: Sequence[Capture]) -> None:
    """Take the captures off the counts of their sweeps, and of the sweeps' hosts."""
    hosts = Counter((c.sweep, host_prefix(c.key)) for c in captures)
    for sweep in sweeps.all_sweeps(reader):
        less = {host: -count for (number, host), count in hosts.items() if number == sweep.number}
        if less:
            sweeps.add_hosts(reader, changes, sweep.number, less)
            if sweep.state is SweepState.COMMITTED:
                sweeps.put(changes, msgspec.structs.replace(sweep, captures=sweep.captures + sum(less.values())))


def _left(reader: RowReader, changes: Changes, row: DocumentRow, going: Sequence[Capture]) -> _Left:
    """What is left of a document that some captures of go; mends the locations of their URLs.

    Other URLs are not looked at more than it takes: an error page may be at millions.
    """
    document = row.sketch.document
    urls: dict[bytes, set[str]] = {}
    staying: list[Capture] = []
    moved: dict[bytes, int | None] = {}
    unmoved = True
    for key, place, gone, kept in _at_each_url(reader, document, going):
        staying += kept
        if lost := {held.url for held in gone} - {held.url for held in kept}:
            urls[key] = lost
        moved[key] = first = min((held.time for held in kept), default=None)
        unmoved &= place != location_row.encode(row.first_seen)
        if first is None:
            changes.delete(Family.LOCATIONS, document + key)
        elif place is not None and location_row.encode(first) != place:
            changes.put(Family.LOCATIONS, document + key, location_row.encode(first))
    left = {key for key, first in moved.items() if first is None}
    return _Left(_first_seen(reader, row, moved, unmoved), Leaving(document, urls, left), staying)


def _at_each_url(
    reader: RowReader, document: bytes, going: Sequence[Capture]
) -> Iterator[tuple[bytes, bytes | None, list[Capture], list[Capture]]]:
    """Of each URL that captures go from: its key, its location, those captures, and what else holds the document."""
    by_key: dict[bytes, list[Capture]] = {}
    for held in going:
        by_key.setdefault(held.key, []).append(held)
    keys = sorted(by_key)
    places = reader.get_many(Family.LOCATIONS, [document + key for key in keys])
    histories = reader.scan_prefixes(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
    for key, place, history in zip(keys, places, histories, strict=True):
        rows = {capture_row.row_key(held) for held in by_key[key]}
        others = (capture_row.decode(*held) for held in history if held[0] not in rows)
        yield key, place, by_key[key], [held for held in others if held.document == document]


def _first_seen(reader: RowReader, row: DocumentRow, moved: Mapping[bytes, int | None], unmoved: bool) -> int | None:
    """When the URLs that are left first held a document, ms (None: none is left); `moved` says it of some.

    No URL held it before the document was first seen, and where none of the `moved` held it then, another did.
    """
    first: int | None = None
    for place, held in reader.scan(Family.LOCATIONS, row.sketch.document):
        key = place[ID_BYTES:]
        seen = moved[key] if key in moved else location_row.decode(held)
        if seen is None:
            continue
        if unmoved:
            return row.first_seen
        first = seen if first is None else min(first, seen)
        if first <= row.first_seen:
            break
    return first


def _drop_documents(reader: RowReader, changes: Changes, gone: Mapping[bytes, Sketch]) -> None:
    """Remove the rows of documents, but for their postings in buckets and words, and their edges."""
    changes.delete_all(Family.DOCUMENTS, gone.keys())
    changes.delete_all(Family.TEXTS, gone.keys())
    for document, sketch in gone.items():
        changes.delete_all(Family.LOCATIONS, {place for place, _ in reader.scan(Family.LOCATIONS, document)})
        indexed, prefix = index_samples(sketch), document[:PREFIX_BYTES]
        changes.delete_all(Family.SAMPLES, {indexed[at : at + 4] + prefix for at in range(0, len(indexed), 4)})


def _rejoin(reader: RowReader, changes: Changes, gone: Collection[bytes]) -> int:
    """Rebuild the components of deleted documents without them; return how many documents remain in these."""
    view = View(reader)
    components = {root: view.members(root) for root in {view.root(document) for document in gone}}
    nodes = [node for members in components.values() for node in members]
    listed = [(root, member) for root, members in components.items() for member in members if member != root]
    edges = [(row[:ID_BYTES], row[ID_BYTES:]) for node in nodes for row, _ in reader.scan(Family.EDGES, node)]
    forest.rejoin(reader, changes, nodes=nodes, listed=listed, edges=edges, deleted=gone)
    return len(set(nodes) - set(gone))
