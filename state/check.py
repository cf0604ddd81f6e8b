"""`state check`: walks every invariant of the state and names what breaks one.

    meta, sweeps  decode; where they do not, nothing else is looked at
    captures   decode; their document is kept and located at their URL; the counts of sweeps' hosts agree
    documents  decode, with as many bins as the scheme; each bucket of the signature holds them, unless it was full
    locations  their document is kept, and a capture says so
    bands, samples, words, texts   only of documents that are kept
    edges      both documents are kept, and are in one cluster
    parents    smaller than their child, of kept documents, without a cycle
    members    exactly the documents that have a parent, each under its root

Reads everything once or twice, in order; memory grows by 8 bytes a document and not with the pages.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import numpy as np
from numpy.typing import NDArray

from state import meta, sweeps
from state.codecs import capture, document, edge, posting
from state.families import Family
from state.store import Store
from state.values import ID_BYTES, PREFIX_BYTES, SweepState
from state.view import View

_WORD = struct.Struct(">Q")


class Problem(msgspec.Struct, frozen=True):
    """A broken invariant: where, and what is wrong."""

    family: str
    key: str  # hex
    what: str


class _Kept:
    """The ids of kept documents, by their first 8 bytes."""

    def __init__(self, store: Store) -> None:
        heads = (_WORD.unpack(key[:8])[0] for key, _ in store.scan(Family.DOCUMENTS) if len(key) == ID_BYTES)
        self._heads: NDArray[np.uint64] = np.fromiter(heads, np.uint64)
        self._prefixes = self._heads >> np.uint64(64 - 8 * PREFIX_BYTES)

    def __contains__(self, document_id: bytes) -> bool:
        return len(document_id) == ID_BYTES and _has(self._heads, _WORD.unpack(document_id[:8])[0])

    def prefix(self, prefix: bytes) -> bool:
        return _has(self._prefixes, int.from_bytes(prefix, "big"))


def _has(ascending: NDArray[np.uint64], value: int) -> bool:
    at = int(np.searchsorted(ascending, np.uint64(value)))
    return at < len(ascending) and int(ascending[at]) == value


def check(store: Store, *, postings_max: int) -> Iterator[Problem]:
    """Every broken invariant; none for a sound state. `postings_max` says when a bucket may leave documents out."""
    unreadable = list(_names(store))
    yield from unreadable
    if unreadable:
        return  # nothing else can be read without these
    kept = _Kept(store)
    for walk in (_captures, _locations, _postings, _edges, _parents, _members):
        yield from walk(store, kept)
    yield from _documents(store, postings_max)


def _problem(family: Family, key: bytes, what: str) -> Problem:
    return Problem(family.value, key.hex(), what)


def _names(store: Store) -> Iterator[Problem]:
    for family, read in (
        (Family.META, lambda: meta.agree(store, None)),
        (Family.META, lambda: meta.counters(store)),
        (Family.SWEEPS, lambda: sweeps.all_sweeps(store)),
    ):
        try:
            read()
        except (ValueError, msgspec.DecodeError) as error:
            yield _problem(family, b"", f"does not decode: {error}")


def _captures(store: Store, kept: _Kept) -> Iterator[Problem]:
    counts: Counter[tuple[int, bytes]] = Counter()
    for row, value in store.scan(Family.CAPTURES):
        try:
            held = capture.decode(row, value)
        except ValueError as error:
            yield _problem(Family.CAPTURES, row, str(error))
            continue
        counts[held.sweep, held.key[: held.key.find(b")") + 1]] += 1
        if held.document is None:
            continue
        if held.document not in kept:
            yield _problem(Family.CAPTURES, row, f"holds document {held.document.hex()}, which is not kept")
        elif store.get(Family.LOCATIONS, held.document + held.key) is None:
            yield _problem(Family.CAPTURES, row, f"document {held.document.hex()} is not located at this URL")
    for sweep in sweeps.all_sweeps(store):
        said = sweeps.hosts(store, sweep.number)
        seen = {host: count for (number, host), count in counts.items() if number == sweep.number}
        for host in sorted(said.keys() | seen.keys()):
            if said.get(host, 0) != seen.get(host, 0) and sweep.state is not SweepState.CANCELLING:
                what = f"says {said.get(host, 0)} captures of {host!r}, there are {seen.get(host, 0)}"
                yield _problem(Family.SWEEPS, sweeps.host_key(sweep.number, host), what)


def _locations(store: Store, kept: _Kept) -> Iterator[Problem]:
    for row, _ in store.scan(Family.LOCATIONS):
        document_id, key = row[:ID_BYTES], row[ID_BYTES:]
        if document_id not in kept:
            yield _problem(Family.LOCATIONS, row, "of a document that is not kept")
            continue
        if document_id not in _held_at(store, key):
            yield _problem(Family.LOCATIONS, row, "no capture of this URL holds the document")


def _held_at(store: Store, key: bytes) -> set[bytes | None]:
    """Documents of a URL's captures; those that do not decode are named elsewhere."""
    found: set[bytes | None] = set()
    for row, value in store.scan(Family.CAPTURES, capture.history(key)):
        with suppress(ValueError):
            found.add(capture.decode(row, value).document)
    return found


def _postings(store: Store, kept: _Kept) -> Iterator[Problem]:
    for row, value in store.scan(Family.BANDS):
        try:
            held = posting.decode(value)
        except ValueError as error:
            yield _problem(Family.BANDS, row, str(error))
            continue
        for prefix in held:
            if not kept.prefix(prefix):
                yield _problem(Family.BANDS, row, f"posting of {prefix.hex()}, which is not kept")
    for family in (Family.SAMPLES, Family.WORDS):
        for row, _ in store.scan(family):
            if not kept.prefix(row[-PREFIX_BYTES:]):
                yield _problem(family, row, "posting of a document that is not kept")
    for row, _ in store.scan(Family.TEXTS):
        if row not in kept:
            yield _problem(Family.TEXTS, row, "text of a document that is not kept")


def _edges(store: Store, kept: _Kept) -> Iterator[Problem]:
    view = View(store)
    for row, value in store.scan(Family.EDGES):
        try:
            held = edge.decode(row, value)
        except ValueError as error:
            yield _problem(Family.EDGES, row, str(error))
            continue
        if held.a not in kept or held.b not in kept:
            yield _problem(Family.EDGES, row, "to a document that is not kept")
        elif view.root(held.a) != view.root(held.b):
            yield _problem(Family.EDGES, row, "between documents of two clusters")


def _parents(store: Store, kept: _Kept) -> Iterator[Problem]:
    for row, parent in store.scan(Family.PARENTS):
        if parent >= row or len(parent) != ID_BYTES:  # smaller, which also makes a cycle impossible
            yield _problem(Family.PARENTS, row, f"parent {parent.hex()} is not smaller")
        elif row not in kept or parent not in kept:
            yield _problem(Family.PARENTS, row, "of or to a document that is not kept")


def _members(store: Store, _kept: _Kept) -> Iterator[Problem]:
    view = View(store)
    listed = 0
    for row, _ in store.scan(Family.MEMBERS):
        listed += 1
        if view.root(row[ID_BYTES:]) != row[:ID_BYTES]:
            yield _problem(Family.MEMBERS, row, "listed under a root that is not its own")
    children = sum(1 for _ in store.scan(Family.PARENTS))
    if children != listed:
        yield _problem(Family.MEMBERS, b"", f"{listed} documents are listed, {children} have a parent")


def _documents(store: Store, postings_max: int) -> Iterator[Problem]:
    scheme = meta.agree(store, None)
    counters = meta.counters(store)
    # A bucket that was full when a document came, and has lost others since, is not full any more.
    thinned = counters.get("bucket_postings_max", 0) > 0 and counters.get("documents_forgotten", 0) > 0
    for row, value in store.scan(Family.DOCUMENTS):
        try:
            signature = document.decode(row, value).sketch.signature.tobytes()
        except ValueError as error:
            yield _problem(Family.DOCUMENTS, row, str(error))
            continue
        if len(signature) != scheme.bins:
            yield _problem(Family.DOCUMENTS, row, f"has {len(signature)} bins, the scheme {scheme.bins}")
            continue
        width = scheme.rows
        buckets = [bytes((band,)) + signature[band * width : (band + 1) * width] for band in range(scheme.bands)]
        for bucket, held in zip(buckets, store.get_many(Family.BANDS, buckets), strict=True):
            prefixes = _prefixes(held)
            if row[:PREFIX_BYTES] not in prefixes and len(prefixes) < postings_max and not thinned:
                yield _problem(Family.DOCUMENTS, row, f"missing from bucket {bucket.hex()}")
        if next(store.scan(Family.LOCATIONS, row), None) is None:
            yield _problem(Family.DOCUMENTS, row, "at no URL")


def _prefixes(value: bytes | None) -> list[bytes]:
    """Postings of a bucket; damaged ones are named elsewhere."""
    try:
        return posting.decode(value or b"")
    except ValueError:
        return []
