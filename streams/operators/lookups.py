"""lookups: reads the state rows that operators need, for both engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from state.codecs import capture_row
from state.families import Family
from state.model import ID_BYTES, Capture
from state.rows import LocalReader, RowReader
from streams.operators import admit, link
from streams.operators.capture import OriginalQuery, is_original
from streams.operators.messages import Sighting, SketchedPage

Rows = dict[bytes, bytes]
UNTIMED_CAPTURES_READ_MAX = 16  # per revisit whose original's time is unknown
TIMED_CAPTURES_READ_MAX = 1_024  # per revisit whose original's time is known


def read_rows(store: RowReader, family: Family, keys: Sequence[bytes]) -> Rows:
    """Return the stored rows with these keys, by key. Missing rows are omitted."""
    values = store.get_many(family, keys)
    return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


def read_admission_rows(store: RowReader, sightings: Sequence[Sighting]) -> tuple[Rows, Rows, Rows]:
    """Return the stored rows that `admit` needs: documents, locations and texts."""
    ids, location_keys = admit.row_keys(sightings)
    documents = read_rows(store, Family.DOCUMENTS, ids)
    locations = read_rows(store, Family.LOCATIONS, [key for key in location_keys if key[:ID_BYTES] in documents])
    return documents, locations, read_rows(store, Family.TEXTS, sorted(documents))


def read_last_captures(store: LocalReader, keys: Sequence[bytes]) -> dict[bytes, Capture]:
    """Return the last capture of each URL that has captures, by URL key."""
    rows = store.last_rows_under(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
    return {key: capture_row.decode(*row) for key, row in zip(keys, rows, strict=True) if row}


def read_stored_chunks(
    store: RowReader, pages: Sequence[SketchedPage], last_captures: Mapping[bytes, Capture]
) -> set[bytes]:
    """Return the ids of the chunks that `link` may have to write, but which are already stored."""
    return set(read_rows(store, Family.LINK_CHUNKS, link.chunk_ids(pages, last_captures)))


def read_possible_originals(
    store: LocalReader, queries: Sequence[OriginalQuery]
) -> dict[OriginalQuery, list[Capture]]:
    """Return the URL's captures up to the time of the revisit, latest first, as far back as the original."""
    captures_by_query: dict[OriginalQuery, list[Capture]] = {}
    for query in queries:
        start = capture_row.encode_key(
            query.original_key, query.revisit_sweep, query.revisit_time, capture_row.TIEBREAKER_MAX
        )
        rows = store.scan_reverse(Family.CAPTURES, capture_row.history_prefix(query.original_key), start)
        history = captures_by_query[query] = []
        captures_max = UNTIMED_CAPTURES_READ_MAX if query.original_time_s < 0 else TIMED_CAPTURES_READ_MAX
        for row in islice(rows, captures_max):
            history.append(capture_row.decode(*row))
            if is_original(history[-1], query.original_time_s):
                break
    return captures_by_query
