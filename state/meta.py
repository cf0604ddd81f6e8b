"""Metadata of the state, by name in the family `meta`: format, scheme, cursors, counters, full buckets.

key                              value
"format"                         decimal
"scheme"                         JSON
"counters"                       JSON: totals by name
"threshold"                      decimal; all pairs with at least this resemblance are stored
"cursor:" ‖ ingest               progress of an ingest, as JSON; `streams.engine.ingest` defines it
"dead-letters"                   length of the dead-letter file at the last commit, decimal
"dictionary:" ‖ number, 1 byte   a dictionary that compresses texts
"full-bucket:" ‖ size, decimal   empty; a bucket with this many postings has refused documents
"partition"                      the partition's number, 4 bytes ‖ the number of partitions, 4 bytes
"changelog"                      offset and epoch of the last changelog record in a partition; see `state.partition`
"sender:" ‖ topic, 0 ‖ partition, 4 bytes   the highest epoch received from a sender in a Kafka topic, 4 bytes
"url-to-forget"                  the URL key whose captures an interrupted `forget` has removed in part
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec

from state.changes import Changes
from state.errors import StateIncompatible
from state.families import Family
from state.rows import Row, RowReader, RowStore
from state.scheme import Scheme

FORMAT = 1  # incremented whenever a layout changes so that older releases cannot read it
DEAD_LETTER_FILE = "dead-letters.jsonl"  # in the state's folder: the pages that ingests rejected
SCHEME, DICTIONARY, FULL_BUCKET = b"scheme", b"dictionary:", b"full-bucket:"
_FORMAT, _COUNTERS, _THRESHOLD = b"format", b"counters", b"threshold"
_CURSOR, _DEAD_LETTER_BYTES, _PARTITION = b"cursor:", b"dead-letters", b"partition"
_SENDER = b"sender:"
_URL_TO_FORGET = b"url-to-forget"
_NUMBER_AND_COUNT = struct.Struct(">II")
_NUMBER = struct.Struct(">I")


def read_scheme(store: RowReader) -> Scheme:
    """Return the state's scheme, or the default if the state is empty. Raise StateIncompatible for a newer format."""
    return _stored_scheme(store) or Scheme()


def claim_scheme(store: RowStore, scheme: Scheme) -> Scheme:
    """Record the scheme in an empty state, or check that the state has this scheme.

    Raise StateIncompatible if the state has a different scheme or a newer format.
    """
    stored = _stored_scheme(store)
    if stored is None:
        changes = Changes()
        changes.put(Family.META, _FORMAT, str(FORMAT).encode())
        changes.put(Family.META, SCHEME, msgspec.json.encode(scheme))
        store.write(changes, sync=True)
    elif stored.id != scheme.id:
        raise StateIncompatible(
            f"the state in {store.path} has scheme {stored.id}, but the settings have {scheme.id}"
            f" ({_difference(stored, scheme)})",
            "use the settings with which the state was created, or a different --data-dir",
        )
    return scheme


def _stored_scheme(store: RowReader) -> Scheme | None:
    stored_format = int(store.get(Family.META, _FORMAT) or FORMAT)
    if stored_format > FORMAT:
        raise StateIncompatible(
            f"the state in {store.path} has format {stored_format}, but this version of lostfound reads"
            f" only formats up to {FORMAT}",
            "use the newer version of lostfound that wrote the state",
        )
    value = store.get(Family.META, SCHEME)
    return msgspec.json.decode(value, type=Scheme) if value else None


def _difference(stored: Scheme, configured: Scheme) -> str:
    actual, expected = msgspec.structs.asdict(stored), msgspec.structs.asdict(configured)
    differing = [name for name in actual if actual[name] != expected[name]]
    differences = [f"{name} {actual[name]} instead of {expected[name]}" for name in differing if name != "seed"]
    return ", ".join(differences + (["a different seed"] if "seed" in differing else []))


def partition(store: RowReader) -> tuple[int, int] | None:
    """Return a partition's number and the number of partitions; None for a state that is not partitioned."""
    value = store.get(Family.META, _PARTITION)
    return _NUMBER_AND_COUNT.unpack(value) if value else None


def claim_partition(store: RowStore, number: int, count: int) -> None:
    """Record the partition in an empty state. Raise StateIncompatible if the state is a different partition."""
    stored = partition(store)
    if stored is None:
        changes = Changes()
        changes.put(Family.META, _PARTITION, _NUMBER_AND_COUNT.pack(number, count))
        store.write(changes)
    elif stored != (number, count):
        raise StateIncompatible(
            f"the state in {store.path} is partition {stored[0]} of {stored[1]}, not {number} of {count}",
            "use a separate --data-dir for each collection and each worker",
        )


def sender_epochs(store: RowReader) -> dict[tuple[str, int], int]:
    """Return the highest epoch received in messages from other partitions, by topic and sending partition."""
    epochs = {}
    for key, value in store.scan(Family.META, _SENDER):
        topic, _, number = key.removeprefix(_SENDER).partition(b"\0")
        epochs[topic.decode(), _NUMBER.unpack(number)[0]] = _NUMBER.unpack(value)[0]
    return epochs


def put_sender_epoch(changes: Changes, topic: str, partition_number: int, epoch: int) -> None:
    """Record the highest epoch that was received in messages of a topic from a partition."""
    key = _SENDER + topic.encode() + b"\0" + _NUMBER.pack(partition_number)
    changes.put(Family.META, key, _NUMBER.pack(epoch))


def counters(store: RowReader) -> dict[str, int]:
    """Return the totals since the state was created, by name."""
    value = store.get(Family.META, _COUNTERS)
    return msgspec.json.decode(value, type=dict[str, int]) if value else {}


def put_counters(changes: Changes, totals: dict[str, int]) -> None:
    changes.put(Family.META, _COUNTERS, msgspec.json.encode(totals))


def threshold(store: RowReader) -> float | None:
    """Return the threshold of the stored pairs, or None before the first ingest.

    Pairs below it may be missing, so clusters cannot be computed for a lower threshold.
    """
    value = store.get(Family.META, _THRESHOLD)
    return float(value) if value else None


def put_threshold(changes: Changes, threshold: float) -> None:
    """Record the threshold, which must be the greatest of all ingests."""
    changes.put(Family.META, _THRESHOLD, str(threshold).encode())


def smallest_full_bucket_size(store: RowReader) -> int | None:
    """Return the smallest number of postings with which a bucket has refused documents, or None."""
    rows = store.scan(Family.META, FULL_BUCKET)
    return min((int(key.removeprefix(FULL_BUCKET)) for key, _ in rows), default=None)


def put_full_bucket_size(changes: Changes, size: int) -> None:
    """Record that a bucket with this many postings refused a document."""
    changes.put(Family.META, FULL_BUCKET + str(size).encode())


def url_to_forget(store: RowReader) -> bytes | None:
    """Return the URL key whose captures an interrupted `forget` has removed in part, or None."""
    return store.get(Family.META, _URL_TO_FORGET)


def put_url_to_forget(changes: Changes, key: bytes) -> None:
    changes.put(Family.META, _URL_TO_FORGET, key)


def delete_url_to_forget(changes: Changes) -> None:
    changes.delete(Family.META, _URL_TO_FORGET)


def cursor(store: RowReader, ingest_name: str) -> bytes | None:
    """Return the stored progress of an ingest as JSON, or None."""
    return store.get(Family.META, _CURSOR + ingest_name.encode())


def cursors(store: RowReader) -> dict[str, bytes]:
    """Return the stored progress of all ingests, by name, as JSON."""
    return cursors_in(store.scan(Family.META, _CURSOR))


def cursors_in(rows: Iterable[Row]) -> dict[str, bytes]:
    """Return the progress of ingests that these rows contain, like `cursors`."""
    return {key.removeprefix(_CURSOR).decode(): value for key, value in rows if key.startswith(_CURSOR)}


def put_cursor(changes: Changes, ingest_name: str, value: bytes) -> None:
    changes.put(Family.META, _CURSOR + ingest_name.encode(), value)


def dead_letter_bytes(store: RowReader) -> int:
    """Return the length of the dead-letter file when the last batch was committed."""
    return int(store.get(Family.META, _DEAD_LETTER_BYTES) or 0)


def put_dead_letter_bytes(changes: Changes, length: int) -> None:
    changes.put(Family.META, _DEAD_LETTER_BYTES, str(length).encode())


def dictionaries(store: RowReader) -> dict[int, bytes]:
    """Return the trained dictionaries that stored texts need, by number."""
    return {key[len(DICTIONARY)]: value for key, value in store.scan(Family.META, DICTIONARY)}


def put_dictionary(changes: Changes, number: int, data: bytes) -> None:
    """Store a dictionary, whose number must never have been used before."""
    changes.put(Family.META, DICTIONARY + bytes((number,)), data)
