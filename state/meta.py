"""What the state says of itself, each under a name in `meta`: format, scheme, cursors, counters, full buckets..."""

from __future__ import annotations

import struct

import msgspec

from state.changes import Changes
from state.errors import StateRefused
from state.families import Family
from state.scheme import Scheme
from state.store import Store

FORMAT = 4  # raised with any change of a layout that an older release could not read; 4: whose text is kept
SCHEME = b"scheme"
_FORMAT, _COUNTERS, _DEAD_LETTERS = b"format", b"counters", b"dead-letters"
_THRESHOLD = b"threshold"
DEAD_LETTERS = "dead-letters.jsonl"  # beside the database: what an ingest refused
_CURSOR = b"cursor:"
DICTIONARY = b"dictionary:"
_PARTITION = b"partition"
FULL = b"full-bucket:"
_TWO = struct.Struct(">II")


def scheme(store: Store) -> Scheme | None:
    """The scheme that the state was made with, or None when it is new."""
    value = store.get(Family.META, SCHEME)
    return msgspec.json.decode(value, type=Scheme) if value else None


def agree(store: Store, wanted: Scheme | None) -> Scheme:
    """Claim a new state for `wanted`, or check that an old one fits; `None` takes what is there and claims nothing.

    Raises StateRefused, naming both sides, for a newer format or another scheme.
    """
    held_format = int(store.get(Family.META, _FORMAT) or FORMAT)
    if held_format > FORMAT:
        raise StateRefused(
            f"the state in {store.path} has format {held_format}, this lostfound reads up to {FORMAT}",
            "use the newer lostfound that wrote it",
        )
    held = scheme(store)
    if held is None:
        made = wanted or Scheme()
        if wanted is not None and store.writable:
            changes = Changes()
            changes.put(Family.META, _FORMAT, str(FORMAT).encode())
            changes.put(Family.META, SCHEME, msgspec.json.encode(made))
            store.write(changes, sync=True)
        return made
    if wanted is not None and wanted.id != held.id:
        raise StateRefused(
            f"the state in {store.path} has scheme {held.id}, the settings say {wanted.id}"
            f" ({_difference(held, wanted)})",
            "use the settings it was made with, or another --data-dir",
        )
    return held


def _difference(held: Scheme, wanted: Scheme) -> str:
    fields = [name for name in Scheme.__struct_fields__ if getattr(held, name) != getattr(wanted, name)]
    shown = (f"{n} {getattr(held, n)} there, {getattr(wanted, n)} here" for n in fields if n != "seed")
    return ", ".join([*shown, *(["another seed"] if "seed" in fields else [])])


def partition(store: Store) -> tuple[int, int] | None:
    """Which partition of how many this state is; None for one that is whole."""
    value = store.get(Family.META, _PARTITION)
    return _TWO.unpack(value) if value else None


def claim_partition(store: Store, number: int, count: int) -> None:
    """Claim a new state for a partition, or check that an old one is this one; raises StateRefused."""
    held = partition(store)
    if held is None:
        changes = Changes()
        changes.put(Family.META, _PARTITION, _TWO.pack(number, count))
        store.write(changes)
    elif held != (number, count):
        raise StateRefused(
            f"{store.path} holds partition {held[0]} of {held[1]}, not {number} of {count}",
            "give each collection and each worker a --data-dir of its own",
        )


def counters(store: Store) -> dict[str, int]:
    """Totals since the state was made, by name."""
    value = store.get(Family.META, _COUNTERS)
    return msgspec.json.decode(value, type=dict[str, int]) if value else {}


def put_counters(changes: Changes, totals: dict[str, int]) -> None:
    """Write all totals."""
    changes.put(Family.META, _COUNTERS, msgspec.json.encode(totals))


def threshold(store: Store) -> float | None:
    """The resemblance from which on all pairs of the state are kept; None for a state of an old release."""
    value = store.get(Family.META, _THRESHOLD)
    return float(value) if value else None


def put_threshold(changes: Changes, threshold: float) -> None:
    """Write from which resemblance on pairs are kept; of several ingests the greatest counts."""
    changes.put(Family.META, _THRESHOLD, str(threshold).encode())


def full_buckets(store: Store) -> int | None:
    """How many postings a bucket must hold that may have left documents out; None: none ever did.

    The least limit that was ever reached: settings change.
    """
    return min((int(key.removeprefix(FULL)) for key, _ in store.scan(Family.META, FULL)), default=None)


def put_full_buckets(changes: Changes, postings_max: int) -> None:
    """Write that buckets of so many postings left documents out: a fact, that may be said again in any order."""
    changes.put(Family.META, FULL + str(postings_max).encode())


def cursor(store: Store, name: str) -> bytes | None:
    """Where an input stands, as its reader wrote it."""
    return store.get(Family.META, _CURSOR + name.encode())


def put_cursor(changes: Changes, name: str, value: bytes) -> None:
    """Write where an input stands."""
    changes.put(Family.META, _CURSOR + name.encode(), value)


def dead_letter_bytes(store: Store) -> int:
    """How long the dead letters were when the last batch was committed."""
    return int(store.get(Family.META, _DEAD_LETTERS) or 0)


def put_dead_letter_bytes(changes: Changes, length: int) -> None:
    """Write how long the dead letters are with this batch."""
    changes.put(Family.META, _DEAD_LETTERS, str(length).encode())


def dictionaries(store: Store) -> dict[int, bytes]:
    """Trained dictionaries of kept texts by number."""
    rows = store.scan(Family.META, DICTIONARY)
    return {key[len(DICTIONARY)]: value for key, value in rows}


def put_dictionary(changes: Changes, number: int, data: bytes) -> None:
    """Keep a dictionary; a number is never used twice."""
    changes.put(Family.META, DICTIONARY + bytes((number,)), data)
