"""`state check`: walks every invariant of the state and names what breaks one.

    meta, sweeps  decode; where they do not, nothing else is looked at
    captures   decode; their document is kept and located at their URL; the counts of sweeps' hosts agree; their URLs
               are listed among those that have any
    documents  decode, with as many bins as the scheme; each bucket of the signature holds them, unless it was full
    locations  their document is kept, and a capture says so
    bands, samples, words, texts   only of documents that are kept
    edges      both documents are kept, and are in one cluster
    parents    smaller than their child, of kept documents, without a cycle
    members    exactly the documents that have a parent, each under its root

Of a partition of a state spread over workers `owns` says which keys are its own: everything in it must be, and what
lies with other partitions is not looked for. Whether two documents are in one cluster is not to be seen in one
partition alone, and a node that is no root any more may have kept a list of members, which nobody asks for.

Reads everything once or twice, in order; memory grows by 16 bytes a document and by an entry for each host
of a sweep, and not with the pages.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby, islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from state import meta, sweeps
from state.codecs import capture_row, document_row, edge_row, posting_list
from state.codecs.url_key import host_prefix
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, SweepState
from state.prefix_index import prefix_of
from state.rows import HistoryReader
from state.view import View

_WORD = struct.Struct(">Q")
Owns = Callable[[bytes], bool]
_URLS_AT_ONCE = 1024
_ELSEWHERE = "belongs to another partition"


class Problem(msgspec.Struct, frozen=True):
    """A broken invariant: where, and what is wrong."""

    family: str
    key: str  # hex
    what: str


class _Kept:
    """The ids of kept documents, by their first 8 bytes; those that another partition owns count as kept."""

    def __init__(self, store: HistoryReader, owns: Owns | None) -> None:
        self.whole = owns is None
        self.owns: Owns = owns or (lambda _: True)
        heads = (_WORD.unpack(key[:8])[0] for key, _ in store.scan(Family.DOCUMENTS) if len(key) == ID_BYTES)
        self._heads: NDArray[np.uint64] = np.fromiter(heads, np.uint64)
        self._prefixes = self._heads >> np.uint64(64 - 8 * PREFIX_BYTES)

    def __contains__(self, document_id: bytes) -> bool:
        if len(document_id) != ID_BYTES:
            return False
        elsewhere = not self.owns(document_id[:PREFIX_BYTES])
        return elsewhere or _has(self._heads, _WORD.unpack(document_id[:8])[0])

    def prefix(self, prefix: bytes) -> bool:
        return not self.owns(prefix) or _has(self._prefixes, int.from_bytes(prefix, "big"))


def _has(ascending: NDArray[np.uint64], value: int) -> bool:
    at = int(np.searchsorted(ascending, np.uint64(value)))
    return at < len(ascending) and int(ascending[at]) == value


def check(store: HistoryReader, *, postings_max: int, owns: Owns | None = None) -> Iterator[Problem]:
    """Every broken invariant; none for a sound state.

    `postings_max` says when a bucket may leave documents out; `owns` which keys (of URLs and buckets, and prefixes of
    documents) belong to this partition, None for a state that is whole.
    """
    unreadable = list(_names(store))
    yield from unreadable
    if unreadable:
        return  # nothing else can be read without these
    kept = _Kept(store, owns)
    for walk in (_captures, _lists, _locations, _postings, _edges, _parents, _members):
        yield from walk(store, kept)
    yield from _documents(store, kept, postings_max)


def _problem(family: Family, key: bytes, what: str) -> Problem:
    return Problem(family.value, key.hex(), what)


def _names(store: HistoryReader) -> Iterator[Problem]:
    for family, read in (
        (Family.META, lambda: meta.read_scheme(store)),
        (Family.META, lambda: meta.counters(store)),
        (Family.SWEEPS, lambda: sweeps.all_sweeps(store)),
    ):
        try:
            read()
        except (ValueError, msgspec.DecodeError) as error:
            yield _problem(family, b"", f"does not decode: {error}")


def _captures(store: HistoryReader, kept: _Kept) -> Iterator[Problem]:
    counts: defaultdict[int, Counter[bytes]] = defaultdict(Counter)  # of a sweep, by host
    for row, value in store.scan(Family.CAPTURES):
        try:
            held = capture_row.decode(row, value)
        except ValueError as error:
            yield _problem(Family.CAPTURES, row, str(error))
            continue
        counts[held.sweep][host_prefix(held.key)] += 1
        if not kept.owns(held.key):
            yield _problem(Family.CAPTURES, row, _ELSEWHERE)
        if held.document is None:
            continue
        if held.document not in kept:
            yield _problem(Family.CAPTURES, row, f"holds document {held.document.hex()}, which is not kept")
        elif (
            kept.owns(held.document[:PREFIX_BYTES]) and store.get(Family.LOCATIONS, held.document + held.key) is None
        ):
            yield _problem(Family.CAPTURES, row, f"document {held.document.hex()} is not located at this URL")
    yield from _hosts(store, counts, whole=kept.whole)


def _hosts(store: HistoryReader, counts: Mapping[int, Counter[bytes]], *, whole: bool) -> Iterator[Problem]:
    """A partition knows the numbers of sweeps only, and counts in the write that brings or takes a capture."""
    known = {s.number for s in sweeps.all_sweeps(store) if s.state is not SweepState.CANCELLING}
    for number in sorted(known if whole else sweeps.numbers_with_hosts(store) | counts.keys()):
        said = sweeps.hosts(store, number)
        seen = counts.get(number, Counter[bytes]())
        for host in sorted(said.keys() | seen.keys()):
            if said.get(host, 0) != seen.get(host, 0):
                what = f"says {said.get(host, 0)} captures of {host!r}, there are {seen.get(host, 0)}"
                yield _problem(Family.SWEEPS, sweeps.host_key(number, host), what)


def _lists(store: HistoryReader, _: _Kept) -> Iterator[Problem]:
    """Each URL with captures is listed: another page there would be taken for its first."""
    urls = (prefix for prefix, _ in groupby(prefix_of(row) for row, _ in store.scan(Family.CAPTURES)))
    while part := list(islice(urls, _URLS_AT_ONCE)):
        for prefix, last in zip(part, store.last_under(Family.CAPTURES, part), strict=True):
            if last is None:
                yield _problem(Family.CAPTURES, prefix, "this URL is not listed, and its captures are not looked up")


def _locations(store: HistoryReader, kept: _Kept) -> Iterator[Problem]:
    for row, _ in store.scan(Family.LOCATIONS):
        document_id, key = row[:ID_BYTES], row[ID_BYTES:]
        if not kept.owns(document_id[:PREFIX_BYTES]):
            yield _problem(Family.LOCATIONS, row, _ELSEWHERE)
        elif document_id not in kept:
            yield _problem(Family.LOCATIONS, row, "of a document that is not kept")
        elif kept.owns(key) and document_id not in _held_at(store, key):
            yield _problem(Family.LOCATIONS, row, "no capture of this URL holds the document")


def _held_at(store: HistoryReader, key: bytes) -> set[bytes | None]:
    """Documents of a URL's captures; those that do not decode are named elsewhere."""
    found: set[bytes | None] = set()
    for row, value in store.scan(Family.CAPTURES, capture_row.history_prefix(key)):
        with suppress(ValueError):
            found.add(capture_row.decode(row, value).document)
    return found


def _postings(store: HistoryReader, kept: _Kept) -> Iterator[Problem]:
    for row, value in store.scan(Family.BANDS):
        try:
            held = posting_list.decode(value)
        except ValueError as error:
            yield _problem(Family.BANDS, row, str(error))
            continue
        if not kept.owns(row):
            yield _problem(Family.BANDS, row, _ELSEWHERE)
        for prefix in held:
            if not kept.prefix(prefix):
                yield _problem(Family.BANDS, row, f"posting of {prefix.hex()}, which is not kept")
    for family in (Family.SAMPLES, Family.WORDS):
        for row, _ in store.scan(family):
            if not kept.owns(row[-PREFIX_BYTES:]):
                yield _problem(family, row, _ELSEWHERE)
            elif not kept.prefix(row[-PREFIX_BYTES:]):
                yield _problem(family, row, "posting of a document that is not kept")
    for row, _ in store.scan(Family.TEXTS):
        if not kept.owns(row[:PREFIX_BYTES]):
            yield _problem(Family.TEXTS, row, _ELSEWHERE)
        elif row not in kept:
            yield _problem(Family.TEXTS, row, "text of a document that is not kept")


def _edges(store: HistoryReader, kept: _Kept) -> Iterator[Problem]:
    view = View(store)
    for row, value in store.scan(Family.EDGES):
        try:
            held = edge_row.decode(row, value)
        except ValueError as error:
            yield _problem(Family.EDGES, row, str(error))
            continue
        if held.a not in kept or held.b not in kept:
            yield _problem(Family.EDGES, row, "to a document that is not kept")
        elif not (kept.owns(held.a[:PREFIX_BYTES]) or kept.owns(held.b[:PREFIX_BYTES])):
            yield _problem(Family.EDGES, row, _ELSEWHERE)
        elif kept.whole and view.root(held.a) != view.root(held.b):
            yield _problem(Family.EDGES, row, "between documents of two clusters")


def _parents(store: HistoryReader, kept: _Kept) -> Iterator[Problem]:
    for row, parent in store.scan(Family.PARENTS):
        if parent >= row or len(parent) != ID_BYTES:  # smaller, which also makes a cycle impossible
            yield _problem(Family.PARENTS, row, f"parent {parent.hex()} is not smaller")
        elif not kept.owns(row[:PREFIX_BYTES]):
            yield _problem(Family.PARENTS, row, _ELSEWHERE)
        elif row not in kept or parent not in kept:
            yield _problem(Family.PARENTS, row, "of or to a document that is not kept")


def _members(store: HistoryReader, kept: _Kept) -> Iterator[Problem]:
    if not kept.whole:
        for row, _ in store.scan(Family.MEMBERS):
            if not kept.owns(row[:PREFIX_BYTES]):
                yield _problem(Family.MEMBERS, row, _ELSEWHERE)
            elif row[ID_BYTES:] not in kept or row[:ID_BYTES] not in kept:
                yield _problem(Family.MEMBERS, row, "of or under a document that is not kept")
        return
    view = View(store)
    listed = 0
    for row, _ in store.scan(Family.MEMBERS):
        listed += 1
        if view.root(row[ID_BYTES:]) != row[:ID_BYTES]:
            yield _problem(Family.MEMBERS, row, "listed under a root that is not its own")
    children = sum(1 for _ in store.scan(Family.PARENTS))
    if children != listed:
        yield _problem(Family.MEMBERS, b"", f"{listed} documents are listed, {children} have a parent")


def _documents(store: HistoryReader, kept: _Kept, postings_max: int) -> Iterator[Problem]:
    scheme = meta.read_scheme(store)
    counters = meta.counters(store)
    # A bucket that was full when a document came, and has lost others since, is not full any more. The counter is of
    # states that do not say it otherwise yet; a partition does not count what was forgotten.
    crowded = meta.full_buckets(store) is not None or counters.get("bucket_postings_max", 0) > 0
    thinned = crowded and (not kept.whole or counters.get("documents_forgotten", 0) > 0)
    for row, value in store.scan(Family.DOCUMENTS):
        try:
            signature = document_row.decode(row, value).sketch.signature.tobytes()
        except ValueError as error:
            yield _problem(Family.DOCUMENTS, row, str(error))
            continue
        if len(signature) != scheme.bins:
            yield _problem(Family.DOCUMENTS, row, f"has {len(signature)} bins, the scheme {scheme.bins}")
            continue
        width = scheme.rows
        buckets = [bytes((band,)) + signature[band * width : (band + 1) * width] for band in range(scheme.bands)]
        for bucket, held in zip(buckets, store.get_many(Family.BANDS, buckets), strict=True):
            if not kept.owns(bucket):
                continue
            prefixes = _prefixes(held)
            if row[:PREFIX_BYTES] not in prefixes and len(prefixes) < postings_max and not thinned:
                yield _problem(Family.DOCUMENTS, row, f"missing from bucket {bucket.hex()}")
        if not kept.owns(row[:PREFIX_BYTES]):
            yield _problem(Family.DOCUMENTS, row, _ELSEWHERE)
        if next(store.scan(Family.LOCATIONS, row), None) is None:
            yield _problem(Family.DOCUMENTS, row, "at no URL")


def _prefixes(value: bytes | None) -> list[bytes]:
    """Postings of a bucket; damaged ones are named elsewhere."""
    try:
        return posting_list.decode(value or b"")
    except ValueError:
        return []
