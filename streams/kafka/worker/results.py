"""Builds the result messages of a batch: near-duplicates and cluster changes.

Like all outputs, results are acknowledged by the broker before the state is written. No result is lost, but a result
may be sent twice. The owner of a candidate builds the near-duplicate result, because the owner's partition contains
the candidate's URLs and parent. The verify request supplies the URL of the new page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from state.changes import Changes
from state.codecs import location_row
from state.families import Family
from state.model import ID_BYTES
from state.store import Store
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import ClosestDocument, ClusterChange, NearDuplicate, Result
from streams.operators.lookups import read_rows
from streams.operators.routing import partition_of
from streams.sketch.sketcher import Comparison
from streams.timestamps import format_iso
from streams.urls import key_url

LOCATIONS_READ_MAX = 16  # per document; an error page can have thousands of URLs


class Location(NamedTuple):
    """A URL at which a document was seen, and the time when the document was first seen there."""

    url_key: bytes
    first_seen: int  # ms since the epoch, UTC


class Match(NamedTuple):
    """A document with a new location, and the closest document in this partition."""

    document: bytes  # id
    location: Location
    closest: bytes  # id; equal to `document` if the document was already stored
    comparison: Comparison


class Locations:
    """The locations of one partition's documents: the stored locations and the locations in the current batch."""

    def __init__(self, store: Store, changes: Changes) -> None:
        self._store = store
        self._new: defaultdict[bytes, list[Location]] = defaultdict(list)
        for key, value in changes.puts_of(Family.LOCATIONS).items():
            self._new[key[:ID_BYTES]].append(_decode_location(key, value))

    def earliest(self, document: bytes, excluded_key: bytes = b"") -> Location:
        """Return the earliest location read that is not at `excluded_key`, or a location with an empty key."""
        rows = islice(self._store.scan(Family.LOCATIONS, document), LOCATIONS_READ_MAX)
        locations = [*(_decode_location(*row) for row in rows), *self._new[document]]
        others = (location for location in locations if location.url_key != excluded_key)
        return min(others, key=lambda location: (location.first_seen, location.url_key), default=Location(b"", 0))


def _decode_location(key: bytes, value: bytes) -> Location:
    return Location(key[ID_BYTES:], location_row.decode(value))


def near_duplicate_results(
    matches: Iterable[Match], locations: Locations, store: Store, partition_count: int
) -> Iterator[Result]:
    """Yield one result per match. Skip matches with a deleted document or an invalid URL key."""
    valid_matches = [(match, url) for match in matches if (url := _decode_url(match.location.url_key))]
    closest_ids = sorted({match.closest for match, _ in valid_matches})
    parents = dict(zip(closest_ids, store.get_many(Family.PARENTS, closest_ids), strict=True))
    for (document, location, closest, comparison), url in valid_matches:
        closest_location = locations.earliest(closest, location.url_key if closest == document else b"")
        if not (closest_url := _decode_url(closest_location.url_key)):
            continue
        value = NearDuplicate(
            url=url,
            document=document.hex(),
            first_seen=format_iso(location.first_seen),
            cluster=(parents[closest] or closest).hex(),
            closest=ClosestDocument(closest_url, closest.hex(), format_iso(closest_location.first_seen)),
            **msgspec.structs.asdict(comparison),
        )
        yield Result(Topic.NEAR_DUPLICATES, partition_of(location.url_key, partition_count), url.encode(), value)


def _decode_url(key: bytes) -> str:
    """Return the URL of a key, or "" if the key is invalid: an invalid key must not stop the worker."""
    try:
        url = key_url(key)
        url.encode()  # fails if the URL contains bytes that are not UTF-8
    except ValueError:
        return ""
    return url


def joined_result(document: bytes, parent: bytes, moved_count: int | None, partition: int) -> Result:
    """Return the result for a document with a new parent. `moved_count` is None if the number is unknown."""
    return _cluster_result(ClusterChange("joined", document.hex(), parent.hex(), moved_count), partition)


def retraction_results(changes: Changes, store: Store, partition: int) -> Iterator[Result]:
    """Yield a result for each document of this partition whose cluster a retraction changes."""
    deleted = read_rows(store, Family.DOCUMENTS, sorted(changes.deletes.get(Family.DOCUMENTS, ()))).keys()
    unlinked = read_rows(store, Family.PARENTS, sorted(changes.deletes.get(Family.PARENTS, ()))).keys()
    for document in sorted(unlinked - deleted):
        yield _cluster_result(ClusterChange("left", document.hex()), partition)
    for document in sorted(deleted):
        yield _cluster_result(ClusterChange("forgotten", document.hex()), partition)
    parents = changes.puts_of(Family.PARENTS)
    documents = sorted(parents)
    for document, previous_parent in zip(documents, store.get_many(Family.PARENTS, documents), strict=True):
        if previous_parent != parents[document]:
            yield joined_result(document, parents[document], None, partition)


def _cluster_result(change: ClusterChange, partition: int) -> Result:
    return Result(Topic.CLUSTERS, partition, change.document.encode(), change)
