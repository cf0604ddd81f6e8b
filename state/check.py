"""`state check`: verify every invariant of the state.

    meta, sweeps  can be decoded; otherwise, nothing else is checked
    captures      can be decoded; the document is stored, and has a location at the URL; the list of links is stored;
                  the counts of captures per host are correct; the prefix index contains the URL
    documents     can be decoded; have as many bins as the scheme, and at least one location; are in every bucket of
                  their signature, unless the bucket was full
    locations     the document is stored, and a capture of the URL has this document
    bands, samples, words, texts   refer to stored documents
    edges         both documents are stored, and they are in the same cluster
    parents       both documents are stored, and the parent has the smaller id, which rules out cycles
    links         see `state.check_links`
    members       are exactly the documents that have a parent, each under its root
    decisions     can be decoded
    analyses      see `state.analyses.row_problems`

In a partition, every row must belong to the partition. Invariants that need rows of other partitions are not checked,
such as whether two documents are in the same cluster. A former root may still have rows in `members`, which nothing
reads.

The check reads all rows once or twice. Its memory use grows with the number of documents (8 bytes each) and of hosts
per sweep, but not with the number of captures.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby, islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from state import analyses, check_links, meta, sweeps
from state.codecs import capture_row, decision_row, document_row, edge_row, link_list, posting_list
from state.codecs.url_key import host_prefix
from state.errors import StateCorrupt
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, DocumentRow, Edge, SweepState
from state.rows import LocalReader
from state.view import View

_URLS_PER_BATCH = 1024
Owns = Callable[[bytes], bool]
"""A function that returns whether the partition owns a URL key, a bucket or the prefix of a document id."""


class Problem(msgspec.Struct, frozen=True):
    """A broken invariant: the row, and what is wrong with it."""

    family: str
    key: str  # hex
    description: str = msgspec.field(name="what")


def check(store: LocalReader, *, postings_max: int, owns: Owns | None = None) -> Iterator[Problem]:
    """Yield every broken invariant. Buckets with `postings_max` postings are full, so documents may be missing there.

    `owns` is None for a state that is not partitioned.
    """
    decoding_problems = list(_decoding_problems(store))
    yield from decoding_problems
    if decoding_problems:
        return
    state = _CheckedState(store, postings_max, owns)
    for family, rule in _RULES.items():
        for key, value in store.scan(family):
            for description in _row_problems(state, rule, key, value):
                yield _problem(family, key, description)
    yield from _host_count_problems(state)
    yield from _prefix_index_problems(store)
    if not state.is_partition:
        yield from _member_count_problems(store)


def _problem(family: Family, key: bytes, description: str) -> Problem:
    return Problem(family.value, key.hex(), description)


def _decoding_problems(store: LocalReader) -> Iterator[Problem]:
    for family, decode_rows in (
        (Family.META, meta.read_scheme),
        (Family.META, meta.counters),
        (Family.SWEEPS, sweeps.all_sweeps),
    ):
        try:
            decode_rows(store)
        except (ValueError, msgspec.DecodeError) as error:
            yield _problem(family, b"", f"cannot be decoded: {error}")


class _CheckedState:
    """The state that is checked, with the first 8 bytes of each document id in memory."""

    def __init__(self, store: LocalReader, postings_max: int, owns: Owns | None) -> None:
        self.store, self.postings_max = store, postings_max
        self.is_partition = owns is not None
        self.owns: Owns = owns or (lambda _: True)
        self.scheme = meta.read_scheme(store)
        self.view = View(store)
        self.capture_counts: defaultdict[int, Counter[bytes]] = defaultdict(Counter)  # by sweep, then by host
        keys = (key for key, _ in store.scan(Family.DOCUMENTS) if len(key) == ID_BYTES)
        self._id_heads = np.fromiter((int.from_bytes(key[:8], "big") for key in keys), np.uint64)
        # A full bucket refuses documents, but later deletions may make room in it. A partition does not count deleted
        # documents, so it is assumed to have deleted some.
        may_have_deleted = self.is_partition or meta.counters(store).get("documents_forgotten", 0) > 0
        self.full_buckets_may_have_shrunk = may_have_deleted and meta.smallest_full_bucket_size(store) is not None

    def has_document(self, id_or_prefix: bytes) -> bool:
        """Return whether the document with this id or prefix is stored; True if it belongs to another partition."""
        if len(id_or_prefix) not in (ID_BYTES, PREFIX_BYTES):
            return False
        if not self.owns(id_or_prefix[:PREFIX_BYTES]):
            return True
        head = id_or_prefix[:8]
        # If any stored id begins with `head`, the first id that is not smaller than `head` does.
        index = int(np.searchsorted(self._id_heads, np.uint64(int.from_bytes(head.ljust(8, b"\0"), "big"))))
        return index < len(self._id_heads) and int(self._id_heads[index]).to_bytes(8, "big").startswith(head)


def _row_problems(state: _CheckedState, rule: _Rule, key: bytes, value: bytes) -> Iterator[str]:
    try:
        row = rule.decode(key, value)
    except StateCorrupt as error:
        yield str(error)
        return
    owner_keys = list(rule.owner_keys(row))
    if owner_keys and not any(map(state.owns, owner_keys)):
        yield "belongs to another partition"
    missing_documents = [document for document in rule.documents(row) if not state.has_document(document)]
    for document in missing_documents:
        yield f"refers to document {document.hex()}, which is not stored"
    if not missing_documents and rule.further_problems is not None:
        yield from rule.further_problems(state, row)


def _capture_problems(state: _CheckedState, capture: Capture) -> Iterator[str]:
    state.capture_counts[capture.sweep][host_prefix(capture.key)] += 1
    if capture.links and state.store.get(Family.LINK_LISTS, link_list.encode_key(capture.key, capture.links)) is None:
        yield f"its list of links {capture.links.hex()} is not stored"
    if capture.document is None or not state.owns(capture.document[:PREFIX_BYTES]):
        return
    if state.store.get(Family.LOCATIONS, capture.document + capture.key) is None:
        yield f"document {capture.document.hex()} has no location at this URL"


def _document_problems(state: _CheckedState, row: DocumentRow) -> Iterator[str]:
    document, signature = row.sketch.document, row.sketch.signature.tobytes()
    if next(state.store.scan(Family.LOCATIONS, document), None) is None:
        yield "has no location"
    if len(signature) != state.scheme.bins:
        yield f"has {len(signature)} bins, but the scheme has {state.scheme.bins}"
        return
    bins_per_band = state.scheme.rows
    buckets = [
        bytes((band,)) + signature[band * bins_per_band : (band + 1) * bins_per_band]
        for band in range(state.scheme.bands)
    ]
    for bucket, value in zip(buckets, state.store.get_many(Family.BANDS, buckets), strict=True):
        if not state.owns(bucket) or state.full_buckets_may_have_shrunk:
            continue
        postings: list[bytes] = []
        with suppress(StateCorrupt):  # reported by the rule of `bands`
            postings = posting_list.decode(value or b"")
        if document[:PREFIX_BYTES] not in postings and len(postings) < state.postings_max:
            yield f"is missing from bucket {bucket.hex()}"


def _location_problems(state: _CheckedState, key: bytes) -> Iterator[str]:
    document, url_key = key[:ID_BYTES], key[ID_BYTES:]
    if not (state.owns(document[:PREFIX_BYTES]) and state.owns(url_key)):
        return
    captured_documents = set()
    for row_key, value in state.store.scan(Family.CAPTURES, capture_row.history_prefix(url_key)):
        with suppress(StateCorrupt):  # reported by the rule of `captures`
            captured_documents.add(capture_row.decode(row_key, value).document)
    if document not in captured_documents:
        yield "no capture of this URL has the document"


def _edge_problems(state: _CheckedState, edge: Edge) -> Iterator[str]:
    if not state.is_partition and state.view.root(edge.a) != state.view.root(edge.b):
        yield "connects documents of different clusters"


def _parent_problems(_: _CheckedState, row: tuple[bytes, bytes]) -> Iterator[str]:
    child, parent = row
    if parent >= child or len(parent) != ID_BYTES:
        yield f"parent {parent.hex()} is not the id of a smaller document"


def _member_problems(state: _CheckedState, key: bytes) -> Iterator[str]:
    if not state.is_partition and state.view.root(key[ID_BYTES:]) != key[:ID_BYTES]:
        yield "is listed under the wrong root"


class _Rule(NamedTuple):
    """The invariants of a family's rows. All functions except `decode` take a decoded row."""

    decode: Callable[[bytes, bytes], Any]
    # The partition must own at least one of these keys, if there are any.
    owner_keys: Callable[[Any], Iterable[bytes]]
    documents: Callable[[Any], Iterable[bytes]]  # ids or prefixes of documents that must be stored
    # Called only if all `documents` are stored.
    further_problems: Callable[[_CheckedState, Any], Iterator[str]] | None = None


def _decode_key_only(key: bytes, _: bytes) -> bytes:
    return key


def _id_prefix_at_start(key: bytes) -> list[bytes]:
    return [key[:PREFIX_BYTES]]


def _id_prefix_at_end(key: bytes) -> list[bytes]:
    return [key[-PREFIX_BYTES:]]


_RULES: dict[Family, _Rule] = {
    Family.CAPTURES: _Rule(
        capture_row.decode,
        lambda capture: [capture.key],
        lambda capture: [capture.document] if capture.document is not None else [],
        _capture_problems,
    ),
    Family.DOCUMENTS: _Rule(
        document_row.decode, lambda row: _id_prefix_at_start(row.sketch.document), lambda _: [], _document_problems
    ),
    Family.LOCATIONS: _Rule(_decode_key_only, _id_prefix_at_start, lambda key: [key[:ID_BYTES]], _location_problems),
    Family.BANDS: _Rule(
        lambda key, value: (key, posting_list.decode(value)), lambda row: [row[0]], lambda row: row[1]
    ),
    Family.SAMPLES: _Rule(_decode_key_only, _id_prefix_at_end, _id_prefix_at_end),
    Family.WORDS: _Rule(_decode_key_only, _id_prefix_at_end, _id_prefix_at_end),
    Family.TEXTS: _Rule(_decode_key_only, _id_prefix_at_start, lambda key: [key]),
    Family.EDGES: _Rule(
        edge_row.decode,
        lambda edge: [edge.a[:PREFIX_BYTES], edge.b[:PREFIX_BYTES]],
        lambda edge: [edge.a, edge.b],
        _edge_problems,
    ),
    Family.PARENTS: _Rule(
        lambda key, value: (key, value),
        lambda row: _id_prefix_at_start(row[0]),
        # `_parent_problems` reports a parent whose length is wrong.
        lambda row: row if len(row[1]) == ID_BYTES else row[:1],
        _parent_problems,
    ),
    Family.MEMBERS: _Rule(
        _decode_key_only, _id_prefix_at_start, lambda key: [key[:ID_BYTES], key[ID_BYTES:]], _member_problems
    ),
    Family.DECISIONS: _Rule(decision_row.decode, lambda decision: [decision.key], lambda _: []),
    Family.ANALYSES: _Rule(
        analyses.decode_row,
        lambda _: [],
        lambda _: [],
        lambda state, row: analyses.row_problems(state.store, row),
    ),
    Family.LINK_LISTS: _Rule(
        check_links.decode_list,
        lambda row: [row[0]],
        lambda _: [],
        lambda state, row: check_links.list_problems(state.store, row),
    ),
    Family.LINK_CHUNKS: _Rule(
        check_links.decode_chunk,
        lambda row: [row[1]] if row[1] else [],
        lambda _: [],
        lambda state, row: check_links.chunk_problems(state.store, row),
    ),
    Family.LINK_TARGETS: _Rule(
        _decode_key_only, lambda _: [], lambda _: [], lambda state, key: check_links.target_problems(state.store, key)
    ),
}


def _host_count_problems(state: _CheckedState) -> Iterator[Problem]:
    """Compare the stored counts of captures per host with the captures.

    A partition has counts but no sweeps. Its counts are always exact, because each write of captures updates them.
    """
    if not state.is_partition:
        sweep_numbers = {s.number for s in sweeps.all_sweeps(state.store) if s.state is not SweepState.CANCELLING}
    else:
        sweep_numbers = sweeps.sweep_numbers_with_host_counts(state.store) | state.capture_counts.keys()
    for number in sorted(sweep_numbers):
        stored, actual = sweeps.captures_per_host(state.store, number), state.capture_counts[number]
        for host in sorted(stored.keys() | actual.keys()):
            if stored.get(host, 0) != actual[host]:
                description = f"counts {stored.get(host, 0)} captures of {host!r}, but there are {actual[host]}"
                yield _problem(Family.SWEEPS, sweeps.host_row_key(number, host), description)


def _prefix_index_problems(store: LocalReader) -> Iterator[Problem]:
    url_keys = (capture_row.url_key_of(row_key) for row_key, _ in store.scan(Family.CAPTURES))
    prefixes = (capture_row.history_prefix(key) for key, _ in groupby(url_keys))
    while batch := list(islice(prefixes, _URLS_PER_BATCH)):
        for prefix, may_have_rows in zip(batch, store.may_have_rows(Family.CAPTURES, batch), strict=True):
            if not may_have_rows:
                yield _problem(
                    Family.CAPTURES, prefix, "is not in the prefix index, so its captures may not be found"
                )


def _member_count_problems(store: LocalReader) -> Iterator[Problem]:
    member_count, child_count = (sum(1 for _ in store.scan(family)) for family in (Family.MEMBERS, Family.PARENTS))
    if child_count != member_count:
        yield _problem(Family.MEMBERS, b"", f"{member_count} documents are members, but {child_count} have a parent")
