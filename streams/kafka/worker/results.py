"""Builds the results that a partition's batch yields: near-duplicates and cluster changes.

Results are outputs like any other: sent and acknowledged before the state records that they are done, so no result is
lost and one may be sent twice. A result is built where its figures are known: at the owner of the candidate, whose
partition also has the candidate's URLs and parent. The URL of the new page travels with its verify request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from state.changes import Changes
from state.codecs import location_row
from state.families import Family
from state.model import ID_BYTES
from state.store import Store
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import Closest, ClusterChange, NearDuplicate, Result
from streams.operators.messages import Sighting
from streams.operators.routing import partition_of
from streams.query.similar import IDENTICAL
from streams.sketch.sketcher import Comparison
from streams.timestamps import iso
from streams.urls import key_url

PLACES_READ = 16  # URLs of a document among which the earliest is looked for: an error page has thousands
Place = tuple[bytes, int]
"""A url key, and when a document was first seen there, in ms."""


class Places:
    """The URLs at which documents of one partition were seen: stored ones and those of a batch."""

    def __init__(self, store: Store, changes: Changes) -> None:
        self._store = store
        self._new: defaultdict[bytes, list[Place]] = defaultdict(list)
        for row, seen in changes.puts.get(Family.LOCATIONS, {}).items():
            self._new[row[:ID_BYTES]].append(_location(row, seen))

    def first(self, document: bytes, but: bytes = b"") -> Place:
        """Return where a document was seen first, except at the key `but`; an empty key if at no other URL."""
        stored = (_location(*row) for row in islice(self._store.scan(Family.LOCATIONS, document), PLACES_READ))
        locations = [location for location in (*stored, *self._new[document]) if location[0] != but]
        return min(locations, key=lambda location: (location[1], location[0]), default=(b"", 0))


def _location(row: bytes, seen: bytes) -> Place:
    return row[ID_BYTES:], location_row.decode(seen)


def near_duplicates(
    matches: Iterable[tuple[bytes, Place, bytes, Comparison]], places: Places, store: Store, partitions: int
) -> Iterator[Result]:
    """Yield results for new documents, with their locations and their closest documents of this partition.

    Deleted documents, which have no location, are skipped, and so are keys that are not of a URL.
    """
    known = [match for match in matches if _url(match[1][0])]
    others = sorted({other for _, _, other, _ in known})
    parents = dict(zip(others, store.get_many(Family.PARENTS, others), strict=True))
    for document, (key, time), other, figures in known:
        other_key, since = places.first(other, key if other == document else b"")
        url, of_other = _url(key), _url(other_key)
        if not of_other:
            continue
        value = NearDuplicate(
            url=url,
            document=document.hex(),
            first_seen=iso(time),
            cluster=(parents[other] or other).hex(),
            closest=Closest(of_other, other.hex(), iso(since)),
            **msgspec.structs.asdict(figures),
        )
        yield Result(Topic.NEAR_DUPLICATES, partition_of(key, partitions), url.encode(), value)


def _url(key: bytes) -> str:
    """Return the URL of a key; empty for a key of no URL, which must not stop the worker."""
    try:
        url = key_url(key)
        url.encode()  # fails for bytes that are not UTF-8
    except ValueError:
        return ""
    return url


def copies(sightings: Sequence[Sighting], places: Places, store: Store, partitions: int) -> Iterator[Result]:
    """Yield results for pages whose document was seen at another URL before."""
    matches = ((s.document, (s.key, s.time), s.document, IDENTICAL) for s in sightings)
    return near_duplicates(matches, places, store, partitions)


def joined(document: bytes, into: bytes, documents: int | None, partition: int) -> Result:
    """Return the result for a root that was joined to another document; `documents` is its cluster's size."""
    value = ClusterChange("joined", document.hex(), into.hex(), documents)
    return Result(Topic.CLUSTERS, partition, value.document.encode(), value)


def retracted(changes: Changes, store: Store, partition: int) -> Iterator[Result]:
    """Yield the effects of a retraction on the clusters of a partition's documents."""
    gone = _present(store, Family.DOCUMENTS, changes.deletes.get(Family.DOCUMENTS, ()))
    alone = _present(store, Family.PARENTS, changes.deletes.get(Family.PARENTS, ()))
    for change, documents in (("left", alone - gone), ("forgotten", gone)):
        for document in sorted(documents):
            value = ClusterChange(change, document.hex())  # type: ignore[arg-type]
            yield Result(Topic.CLUSTERS, partition, value.document.encode(), value)
    parents = changes.puts.get(Family.PARENTS, {})
    ids = sorted(parents)
    for document, before in zip(ids, store.get_many(Family.PARENTS, ids), strict=True):
        if before != parents[document]:
            yield joined(document, parents[document], None, partition)


def _present(store: Store, family: Family, keys: Iterable[bytes]) -> set[bytes]:
    ordered = sorted(keys)
    return {key for key, row in zip(ordered, store.get_many(family, ordered), strict=True) if row is not None}
