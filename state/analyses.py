"""Store the results of analyses. The results of an analysis and sweep are replaced as a whole.

Results contain URLs and host names. Every removal of captures therefore deletes all results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from state import sweeps
from state.changes import Changes
from state.codecs import analysis_row
from state.codecs.analysis_row import AnalysisKey
from state.errors import StateCorrupt
from state.families import Family
from state.model import SweepState
from state.rows import RowReader

_KEYS_PER_READ = 10_000


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of results, how many there are, and which limits were reached."""

    origin: str  # identifies the data from which the results were computed, and the release that computed them
    chunks: int
    results: int
    counters: dict[str, int] = {}  # how often each limit was reached


def put(
    store: RowReader,
    changes: Changes,
    key: AnalysisKey,
    lines: Iterable[bytes],
    *,
    origin: str,
    counters: dict[str, int] | None = None,
) -> None:
    """Store results, one JSON object per line, and delete the earlier results of this key."""
    delete(store, changes, analysis_row.encode_prefix(key))
    chunks = results = 0
    for chunks, chunk in enumerate(analysis_row.cut_into_chunks(lines), 1):
        results += len(chunk)
        changes.put(Family.ANALYSES, analysis_row.encode_key(key, chunks), analysis_row.encode(chunk))
    header = msgspec.json.encode(Header(origin=origin, chunks=chunks, results=results, counters=counters or {}))
    changes.put(Family.ANALYSES, analysis_row.encode_key(key, 0), analysis_row.encode([header]))


def header(store: RowReader, key: AnalysisKey) -> Header | None:
    """Return the header of results, or None if they are not stored."""
    value = store.get(Family.ANALYSES, analysis_row.encode_key(key, 0))
    return _decode_header(analysis_row.decode(value)) if value is not None else None


def _decode_header(chunk: list[bytes]) -> Header:
    try:
        return msgspec.json.decode(b"\n".join(chunk), type=Header)
    except msgspec.DecodeError as error:
        raise StateCorrupt(f"invalid header of an analysis: {error}") from error


def lines(store: RowReader, key: AnalysisKey) -> Iterator[bytes]:
    """Yield the stored results, one JSON object per line."""
    prefix = analysis_row.encode_prefix(key)
    for _, value in store.scan(Family.ANALYSES, prefix, analysis_row.encode_key(key, 1)):
        yield from analysis_row.decode(value)


def newest_key(store: RowReader, analysis: str, method: str) -> AnalysisKey | None:
    """Return the key of an analysis and method for the newest sweep with results, or None if no sweep has results."""
    keys = (AnalysisKey(sweep, analysis, method) for sweep in sorted(_sweeps_with_results(store), reverse=True))
    return next((key for key in keys if header(store, key) is not None), None)


def _sweeps_with_results(store: RowReader) -> Iterator[int]:
    """Yield the numbers of the sweeps that have results, with one look-up per sweep."""
    sweep = 0
    while row_keys := store.keys(Family.ANALYSES, b"", 1, analysis_row.encode_sweep(sweep)):
        key, _ = analysis_row.decode_key(row_keys[0])
        yield key.sweep
        sweep = key.sweep + 1


def delete(store: RowReader, changes: Changes, prefix: bytes = b"") -> None:
    """Delete the results whose row keys begin with `prefix`, by default all results."""
    start = prefix
    while row_keys := store.keys(Family.ANALYSES, prefix, _KEYS_PER_READ, start):
        changes.delete_all(Family.ANALYSES, row_keys)
        start = row_keys[-1] + b"\0"


class Row(NamedTuple):
    """A decoded row: a chunk of results or, if `chunk` is 0, the header."""

    key: AnalysisKey
    chunk: int
    lines: list[bytes]


def decode_row(row_key: bytes, value: bytes) -> Row:
    """Decode a row. Raise StateCorrupt if it is invalid."""
    row = Row(*analysis_row.decode_key(row_key), analysis_row.decode(value))
    if row.chunk == 0:
        _decode_header(row.lines)
    return row


def row_problems(store: RowReader, row: Row) -> Iterator[str]:
    """Yield the broken invariants of a row.

    The results belong to a committed sweep, and have a header that counts their chunks and lines.
    """
    if row.chunk > 0:
        if store.get(Family.ANALYSES, analysis_row.encode_key(row.key, 0)) is None:
            yield "belongs to results without a header"
        return
    # An interrupted cancellation of the sweep may leave results. The next attempt to cancel it deletes them.
    states = {sweep.number: sweep.state for sweep in sweeps.all_sweeps(store)}
    if states.get(row.key.sweep) not in (SweepState.COMMITTED, SweepState.CANCELLING):
        yield f"belongs to sweep {row.key.sweep}, which is not committed"
    expected = _decode_header(row.lines)
    first_chunk = analysis_row.encode_key(row.key, 1)
    chunks = store.scan(Family.ANALYSES, analysis_row.encode_prefix(row.key), first_chunk)
    try:
        sizes = [len(analysis_row.decode(value)) for _, value in chunks]
    except StateCorrupt:  # reported for the row of this chunk
        return
    if (len(sizes), sum(sizes)) != (expected.chunks, expected.results):
        counted = f"{expected.results} results in {expected.chunks} chunks"
        yield f"counts {counted}, but {sum(sizes)} results in {len(sizes)} chunks are stored"
