"""Forgetting: removing pages and documents, and the trace of a cancelled sweep, rebuilding only what they touched.

A union-find cannot take a union back. So the component of a removed document is dissolved and joined again from the
edges that are left. A removal is committed in one write batch a component, so that a crash leaves it done or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from state import meta, sweeps
from state.changes import Changes
from state.codecs import capture_row, document_row, location_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, DocumentRow, Sketch, Sweep, SweepState
from state.scheme import Scheme
from state.store import Store
from state.view import View
from streams.engine.embedded import join_all
from streams.forgetting.bucket_refill import unpost
from streams.forgetting.remaining_text import TextsLeft
from streams.forgetting.word_index import Leaving, Unindexing, held_elsewhere
from streams.operators.join import union
from streams.sketch.index_terms import index_samples
from streams.urls import host_prefix

CAPTURES_A_BATCH = 2_000


class Forgotten(msgspec.Struct, frozen=True):
    """What a removal removed, and how many documents were joined anew because of it."""

    captures: int
    documents: int
    rejoined: int


class _Left(msgspec.Struct, frozen=True):
    """What is left of a document, at the URLs that captures of it go from."""

    first_seen: int | None  # ms, at any URL; None: it is at none
    leaving: Leaving
    staying: list[Capture]


def forget_document(store: Store, document: bytes) -> Forgotten:
    """Remove a document, and every capture of it."""
    finish_cancelling(store)
    view = View(store)
    gone = [
        capture
        for key in view.locations([document], limit=1 << 62)[0]
        for capture in view.captures(key)
        if capture.document == document
    ]
    return _remove(store, gone, Unindexing(store, view.scheme, lambda _: False), also={document})


def forget_url(store: Store, key: bytes) -> Forgotten:
    """Remove a URL's captures, and the documents that no other URL holds or held."""
    finish_cancelling(store)
    view = View(store)
    return _remove(store, view.captures(key), Unindexing(store, view.scheme, lambda held: held.key != key))


def cancel_sweep(store: Store, sweep: Sweep) -> Forgotten:
    """Take back everything that a sweep brought. Begun again after a crash, it goes on."""
    sweep = sweeps.begin_cancel(store, sweep)
    total = Forgotten(0, 0, 0)
    reached = b""
    words = Unindexing(store, View(store).scheme, lambda held: held.sweep != sweep.number)
    while batch := _captures_of(store, sweep.number, reached):
        reached = capture_row.row_key(batch[-1])
        done = _remove(store, batch, words)
        total = Forgotten(*(a + b for a, b in zip(_numbers(total), _numbers(done), strict=True)))
    sweeps.finish_cancel(store, sweep)
    return total


def finish_cancelling(store: Store) -> None:
    """Go on with cancellations that a crash cut short, before a sweep is opened, or pages are taken in or forgotten.

    What is left of them is in no answer, so that committing need not wait for it; but their names are not free yet.
    """
    for sweep in sweeps.all_sweeps(store):
        if sweep.state is SweepState.CANCELLING:
            cancel_sweep(store, sweep)


def _numbers(forgotten: Forgotten) -> tuple[int, int, int]:
    return forgotten.captures, forgotten.documents, forgotten.rejoined


def _captures_of(store: Store, sweep: int, start: bytes) -> list[Capture]:
    found: list[Capture] = []
    for row, value in store.scan(Family.CAPTURES, start=start):
        if capture_row.decode_key(row)[1] == sweep:
            found.append(capture_row.decode(row, value))
            if len(found) >= CAPTURES_A_BATCH:
                break
    return found


def _remove(store: Store, captures: Sequence[Capture], words: Unindexing, also: Collection[bytes] = ()) -> Forgotten:
    """Remove captures, the locations that held by them alone, and the documents that are then nowhere."""
    changes = Changes()
    going: dict[bytes, list[Capture]] = {document: [] for document in also}
    for held in captures:
        changes.delete(Family.CAPTURES, capture_row.row_key(held))
        if held.document:
            going.setdefault(held.document, []).append(held)
    _uncount(store, changes, captures)
    scheme = View(store).scheme
    gone, leaving = _take_out(store, changes, scheme, going, also)
    _drop_documents(store, changes, gone)
    unpost(store, changes, gone, scheme)
    changes.delete_all(Family.WORDS, words.stale(leaving))
    rejoined = _rejoin(store, changes, gone)
    totals = Counter(meta.counters(store))
    totals.update(documents=-len(gone), documents_forgotten=len(gone))
    meta.put_counters(changes, dict(totals))
    store.write(changes, sync=True)
    return Forgotten(len(captures), len(gone), rejoined)


def _take_out(
    store: Store, changes: Changes, scheme: Scheme, going: Mapping[bytes, Sequence[Capture]], also: Collection[bytes]
) -> tuple[dict[bytes, Sketch], list[Leaving]]:
    """Take documents out of the URLs whose captures go; which of them are then nowhere, and what each leaves."""
    gone: dict[bytes, Sketch] = {}
    leaving: list[Leaving] = []
    texts = TextsLeft(store, scheme)
    documents = sorted(going)
    for document, value in zip(documents, store.get_many(Family.DOCUMENTS, documents), strict=True):
        if value is None:
            continue
        row = document_row.decode(document, value)
        left = _left(store, changes, row, going[document])
        if left.first_seen is None or document in also:
            gone[document] = row.sketch
            leaving.append(Leaving(document, left.leaving.urls, None))
            continue
        leaving.append(left.leaving)
        if left.first_seen != row.first_seen:
            changes.put(Family.DOCUMENTS, document, document_row.seen_at(value, left.first_seen))
        known = {held.key for held in going[document]}
        staying = chain(left.staying, held_elsewhere(store, document, known))
        if text := texts.of(row.sketch, going[document], staying):
            changes.put(Family.TEXTS, document, text)
        elif text is not None:
            changes.delete(Family.TEXTS, document)
    return gone, leaving


def _uncount(store: Store, changes: Changes, captures: Sequence[Capture]) -> None:
    """Take the captures off the counts of their sweeps, and of the sweeps' hosts."""
    hosts = Counter((c.sweep, host_prefix(c.key)) for c in captures)
    for sweep in sweeps.all_sweeps(store):
        less = {host: -count for (number, host), count in hosts.items() if number == sweep.number}
        if less:
            sweeps.add_hosts(store, changes, sweep.number, less)
            if sweep.state is SweepState.COMMITTED:
                sweeps.put(changes, msgspec.structs.replace(sweep, captures=sweep.captures + sum(less.values())))


def _left(store: Store, changes: Changes, row: DocumentRow, going: Sequence[Capture]) -> _Left:
    """What is left of a document that some captures of go; mends the locations of their URLs.

    Other URLs are not looked at more than it takes: an error page may be at millions.
    """
    document = row.sketch.document
    urls: dict[bytes, set[str]] = {}
    staying: list[Capture] = []
    moved: dict[bytes, int | None] = {}
    unmoved = True
    for key, place, gone, kept in _at_each_url(store, document, going):
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
    return _Left(_first_seen(store, row, moved, unmoved), Leaving(document, urls, left), staying)


def _at_each_url(
    store: Store, document: bytes, going: Sequence[Capture]
) -> Iterator[tuple[bytes, bytes | None, list[Capture], list[Capture]]]:
    """Of each URL that captures go from: its key, its location, those captures, and what else holds the document."""
    by_key: dict[bytes, list[Capture]] = {}
    for held in going:
        by_key.setdefault(held.key, []).append(held)
    keys = sorted(by_key)
    places = store.get_many(Family.LOCATIONS, [document + key for key in keys])
    histories = store.scan_prefixes(Family.CAPTURES, [capture_row.history(key) for key in keys])
    for key, place, history in zip(keys, places, histories, strict=True):
        rows = {capture_row.row_key(held) for held in by_key[key]}
        others = (capture_row.decode(*held) for held in history if held[0] not in rows)
        yield key, place, by_key[key], [held for held in others if held.document == document]


def _first_seen(store: Store, row: DocumentRow, moved: Mapping[bytes, int | None], unmoved: bool) -> int | None:
    """When the URLs that are left first held a document, ms (None: none is left); `moved` says it of some.

    No URL held it before the document was first seen, and where none of the `moved` held it then, another did.
    """
    first: int | None = None
    for place, held in store.scan(Family.LOCATIONS, row.sketch.document):
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


def _drop_documents(store: Store, changes: Changes, gone: Mapping[bytes, Sketch]) -> None:
    """Remove the rows of documents, but for their postings in buckets and words, and their edges."""
    changes.delete_all(Family.DOCUMENTS, gone.keys())
    changes.delete_all(Family.TEXTS, gone.keys())
    for document, sketch in gone.items():
        changes.delete_all(Family.LOCATIONS, {place for place, _ in store.scan(Family.LOCATIONS, document)})
        indexed, prefix = index_samples(sketch), document[:PREFIX_BYTES]
        changes.delete_all(Family.SAMPLES, {indexed[at : at + 4] + prefix for at in range(0, len(indexed), 4)})


def _rejoin(store: Store, changes: Changes, gone: Collection[bytes]) -> int:
    """Dissolve the components of removed documents and join what is left by the edges that are left."""
    view = View(store)
    unions = []
    left: set[bytes] = set()
    for root in {view.root(document) for document in gone}:
        members = view.members(root)
        for member in members:
            changes.delete(Family.PARENTS, member)
            if member != root:
                changes.delete(Family.MEMBERS, root + member)
            for row, _ in store.scan(Family.EDGES, member):
                other = row[ID_BYTES:]
                if member in gone or other in gone:
                    changes.delete(Family.EDGES, row)
                else:
                    unions.append(union(member, other))
        left.update(member for member in members if member not in gone)
    join_all(store, unions, changes)
    return len(left)
