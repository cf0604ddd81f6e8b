"""Forgetting: removing pages and documents, and the trace of a cancelled sweep, rebuilding only what they touched.

A union-find cannot take a union back. So the component of a removed document is dissolved and joined again from the
edges that are left. A removal is committed in one write batch a component, so that a crash leaves it done or not.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from state import meta, sweeps
from state.changes import Changes
from state.codecs import capture as capture_codec
from state.codecs import document as document_codec
from state.codecs import posting
from state.families import Family
from state.scheme import Scheme
from state.store import Store
from state.values import ID_BYTES, PREFIX_BYTES, Capture, Sketch, Sweep, SweepState
from state.view import View
from streams import sketching
from streams.embedded import join_all
from streams.operators.join import union
from streams.terms import index_samples
from streams.unindexing import Leaving, stale_words
from streams.urls import host_prefix

_TIME = struct.Struct(">Q")
CAPTURES_A_BATCH = 2_000


class Forgotten(msgspec.Struct, frozen=True):
    """What a removal removed, and how many documents were joined anew because of it."""

    captures: int
    documents: int
    rejoined: int


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
    return _remove(store, gone, also={document})


def forget_url(store: Store, key: bytes) -> Forgotten:
    """Remove a URL's captures, and the documents that no other URL holds or held."""
    finish_cancelling(store)
    return _remove(store, View(store).captures(key))


def cancel_sweep(store: Store, sweep: Sweep) -> Forgotten:
    """Take back everything that a sweep brought. Begun again after a crash, it goes on."""
    if sweep.state is not SweepState.CANCELLING:
        sweep = sweeps.moved_on(sweep, SweepState.CANCELLING)
        changes = Changes()
        sweeps.put(changes, sweep)
        store.write(changes, sync=True)
    total = Forgotten(0, 0, 0)
    reached = b""
    while batch := _captures_of(store, sweep.number, reached):
        reached = capture_codec.row_key(batch[-1])
        done = _remove(store, batch)
        total = Forgotten(*(a + b for a, b in zip(_numbers(total), _numbers(done), strict=True)))
    changes = Changes()
    sweeps.put(changes, msgspec.structs.replace(sweeps.moved_on(sweep, SweepState.CANCELLED), captures=0))
    for host in sweeps.hosts(store, sweep.number):
        changes.delete(Family.SWEEPS, sweeps.host_key(sweep.number, host))
    store.write(changes, sync=True)
    return total


def finish_cancelling(store: Store) -> None:
    """Go on with cancellations that a crash cut short; every writer does this when it opens the state."""
    for sweep in sweeps.all_sweeps(store):
        if sweep.state is SweepState.CANCELLING:
            cancel_sweep(store, sweep)


def _numbers(forgotten: Forgotten) -> tuple[int, int, int]:
    return forgotten.captures, forgotten.documents, forgotten.rejoined


def _captures_of(store: Store, sweep: int, start: bytes) -> list[Capture]:
    found: list[Capture] = []
    for row, value in store.scan(Family.CAPTURES, start=start):
        if capture_codec.decode_key(row)[1] == sweep:
            found.append(capture_codec.decode(row, value))
            if len(found) >= CAPTURES_A_BATCH:
                break
    return found


def _remove(store: Store, captures: Iterable[Capture], also: Collection[bytes] = ()) -> Forgotten:
    """Remove captures, the locations that held by them alone, and the documents that are then nowhere."""
    captures = list(captures)
    changes = Changes()
    going = {capture_codec.row_key(c) for c in captures}
    for row in going:
        changes.delete(Family.CAPTURES, row)
    _uncount(store, changes, captures)
    gone: dict[bytes, Sketch] = {}
    leaving: list[Leaving] = []
    for document in {c.document for c in captures if c.document} | set(also):
        value = store.get(Family.DOCUMENTS, document)
        if value is None:
            continue
        left, places = _left(store, changes, document, going)
        leaving.append(places)
        if left is None or document in also:
            gone[document] = document_codec.decode(document, value).sketch
        elif left != document_codec.first_seen(value):
            changes.put(Family.DOCUMENTS, document, document_codec.seen_at(value, left))
    scheme = View(store).scheme
    for document, sketch in gone.items():
        _drop_document(store, changes, document, sketch, scheme)
    for row in stale_words(store, scheme, leaving):
        changes.delete(Family.WORDS, row)
    rejoined = _rejoin(store, changes, gone)
    totals = Counter(meta.counters(store))
    totals.update(documents=-len(gone), documents_forgotten=len(gone))
    meta.put_counters(changes, dict(totals))
    store.write(changes, sync=True)
    return Forgotten(len(captures), len(gone), rejoined)


def _uncount(store: Store, changes: Changes, captures: Sequence[Capture]) -> None:
    """Take the captures off the counts of their sweeps, and of the sweeps' hosts."""
    hosts = Counter((c.sweep, host_prefix(c.key)) for c in captures)
    for sweep in sweeps.all_sweeps(store):
        less = {host: -count for (number, host), count in hosts.items() if number == sweep.number}
        if less:
            sweeps.add_hosts(store, changes, sweep.number, less)
            if sweep.state is SweepState.COMMITTED:
                sweeps.put(changes, msgspec.structs.replace(sweep, captures=sweep.captures + sum(less.values())))


def _left(store: Store, changes: Changes, document: bytes, going: Collection[bytes]) -> tuple[int | None, Leaving]:
    """When the captures that stay first saw a document, ms (None: none stays), and the URLs that it leaves.

    Mends the locations.
    """
    first: int | None = None
    leaves: dict[bytes, set[str]] = {}
    stays: dict[bytes, set[str]] = {}
    for place, held in list(store.scan(Family.LOCATIONS, document)):
        key = place[ID_BYTES:]
        history = (capture_codec.decode(*row) for row in store.scan(Family.CAPTURES, capture_codec.history(key)))
        holding = [c for c in history if c.document == document]
        times = [c.time for c in holding if capture_codec.row_key(c) not in going]
        (stays if times else leaves)[key] = {c.url for c in holding}
        if not times:
            changes.delete(Family.LOCATIONS, place)
            continue
        if (seen := _TIME.pack(min(times))) != held:
            changes.put(Family.LOCATIONS, place, seen)
        first = min(times) if first is None else min(first, *times)
    return first, Leaving(document, leaves, stays)


def _drop_document(store: Store, changes: Changes, document: bytes, sketch: Sketch, scheme: Scheme) -> None:
    changes.delete(Family.DOCUMENTS, document)
    changes.delete(Family.TEXTS, document)
    for place, _ in store.scan(Family.LOCATIONS, document):
        changes.delete(Family.LOCATIONS, place)
    prefix = document[:PREFIX_BYTES]
    indexed = index_samples(sketch)
    for at in range(0, len(indexed), 4):
        changes.delete(Family.SAMPLES, indexed[at : at + 4] + prefix)
    for raw in sketching.buckets(sketch.signature[None, :], scheme)[0]:
        bucket = raw.tobytes()
        if bucket in changes.deletes.get(Family.BANDS, ()):
            continue  # was full, and those that it held went before this one
        value = changes.family(Family.BANDS).get(bucket) or store.get(Family.BANDS, bucket) or b""
        kept = [held for held in posting.decode(value) if held != prefix]
        if kept:
            changes.put(Family.BANDS, bucket, posting.encode(kept))
        else:
            changes.delete(Family.BANDS, bucket)


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
