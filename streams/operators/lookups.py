"""What the operators are told of the state: the same lookups, whichever engine runs them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from state.codecs import capture_row
from state.families import Family
from state.model import ID_BYTES, Capture
from state.rows import HistoryReader, RowReader
from streams.operators import admit
from streams.operators.capture import Instant, is_repeated
from streams.operators.messages import Sighting

Rows = dict[bytes, bytes]
LOOKED_BACK = 16  # captures without a document that a revisit's look back passes over
LOOKED_BACK_FOR_TIME = 1_024  # captures of other times, where the record says which it repeats


def known(store: RowReader, family: Family, keys: Sequence[bytes]) -> Rows:
    """The rows of those keys that have one."""
    found = store.get_many(family, keys)
    return {key: value for key, value in zip(keys, found, strict=True) if value is not None}


def admission(store: RowReader, sightings: Sequence[Sighting]) -> tuple[Rows, Rows, Rows]:
    """Of what arrives: documents that are kept, places where they were seen, and texts that are kept."""
    ids, places = admit.needs(sightings)
    documents = known(store, Family.DOCUMENTS, ids)
    located = known(store, Family.LOCATIONS, [place for place in places if place[:ID_BYTES] in documents])
    return documents, located, known(store, Family.TEXTS, sorted(documents))


def last_captures(store: HistoryReader, keys: Sequence[bytes]) -> dict[bytes, Capture]:
    """The last capture of each URL that has one."""
    found = store.last_under(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
    return {key: capture_row.decode(*row) for key, row in zip(keys, found, strict=True) if row}


def captures_before(store: HistoryReader, instants: Sequence[Instant]) -> dict[Instant, list[Capture]]:
    """Captures up to each instant, from the last one back to the one that is looked for."""
    found: dict[Instant, list[Capture]] = {}
    for instant in instants:
        key, sweep, time, second = instant
        start = capture_row.encode_key(key, sweep, time, capture_row.TIE_MAX)
        held = found[instant] = []
        most = LOOKED_BACK if second < 0 else LOOKED_BACK_FOR_TIME
        for row in islice(store.scan_reverse(Family.CAPTURES, capture_row.history_prefix(key), start), most):
            held.append(capture_row.decode(*row))
            if is_repeated(held[-1], second):
                break
    return found
