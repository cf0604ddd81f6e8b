"""A record of a partition's changelog: the changes of one batch, as columns.

    value    version 1 │ kind 1 │ section │ section │ ...
    section  family 1 │ rows 4 │ key lengths 2 each │ value lengths 4 each │ keys │ values         puts
             family 1 + 128 │ rows 4 │ key lengths 2 each │ keys                                   deletes

Kind 1 holds facts, which are merged into what is there; kind 2 an amendment (something was forgotten), which
overwrites. Families are numbered as in `state.families`, from 0; numbers are never used again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from state.changes import Changes
from state.families import Family

VERSION = 1
FACTS, AMENDMENT = 1, 2
_FAMILIES = list(Family)
_NUMBERS = {family: number for number, family in enumerate(_FAMILIES)}
_DELETES = 128
_SECTION = struct.Struct(">BI")
_HEAD_BYTES = 2


def encode(changes: Changes, *, kind: int = FACTS, record_bytes_max: int = 1 << 20) -> list[bytes]:
    """Pack changes into records of at most so many bytes, where no single row is longer."""
    records: list[list[bytes]] = []
    size = record_bytes_max
    for section in _sections(changes, record_bytes_max - _HEAD_BYTES):
        if size + len(section) > record_bytes_max:
            records.append([bytes((VERSION, kind))])
            size = _HEAD_BYTES
        records[-1].append(section)
        size += len(section)
    return [b"".join(parts) for parts in records]


def _sections(changes: Changes, bytes_max: int) -> Iterator[bytes]:
    for family, keys in changes.deletes.items():
        ordered = sorted(keys)
        for part in _cut([len(key) + 2 for key in ordered], bytes_max):
            yield _pack(_NUMBERS[family] + _DELETES, ordered[part], None)
    for family, rows in changes.puts.items():
        ordered = sorted(rows)
        for part in _cut([len(key) + len(rows[key]) + 6 for key in ordered], bytes_max):
            yield _pack(_NUMBERS[family], ordered[part], [rows[key] for key in ordered[part]])


def _cut(sizes: list[int], bytes_max: int) -> Iterator[slice]:
    start, size = 0, _SECTION.size
    for at, more in enumerate(sizes):
        if size + more > bytes_max and at > start:
            yield slice(start, at)
            start, size = at, _SECTION.size
        size += more
    if len(sizes) > start:
        yield slice(start, len(sizes))


def _pack(number: int, keys: list[bytes], values: list[bytes] | None) -> bytes:
    parts = [_SECTION.pack(number, len(keys)), np.fromiter(map(len, keys), ">u2", len(keys)).tobytes()]
    if values is not None:
        parts.append(np.fromiter(map(len, values), ">u4", len(values)).tobytes())
    return b"".join([*parts, *keys, *(values or ())])


def decode(record: bytes) -> tuple[int, Changes]:
    """Unpack a record into its kind and its changes; raises ValueError for one that is none."""
    if len(record) < _HEAD_BYTES or record[0] != VERSION or record[1] not in (FACTS, AMENDMENT):
        raise ValueError("not a changelog record of version 1: cut short, or written by a newer lostfound")
    changes = Changes()
    at = _HEAD_BYTES
    while at < len(record):
        if at + _SECTION.size > len(record):
            raise ValueError(f"a changelog record is cut short at byte {at}")
        number, count = _SECTION.unpack_from(record, at)
        at += _SECTION.size
        if number % _DELETES >= len(_FAMILIES):
            raise ValueError(f"a changelog record names family {number % _DELETES}: written by a newer lostfound")
        family = _FAMILIES[number % _DELETES]
        widths = (2,) if number >= _DELETES else (2, 4)
        lengths = []
        for width in widths:
            lengths.append(_lengths(record, at, count, width))
            at += count * width
        columns = []
        for each in lengths:
            column, at = _slices(record, at, each)
            columns.append(column)
        if number >= _DELETES:
            changes.deletes.setdefault(family, set()).update(columns[0])
        else:
            changes.family(family).update(zip(*columns, strict=True))
    return record[1], changes


def _lengths(record: bytes, at: int, count: int, width: int) -> list[int]:
    if at + count * width > len(record):
        raise ValueError(f"a changelog record is cut short at byte {at}")
    lengths: list[int] = np.frombuffer(record, f">u{width}", count, at).tolist()
    return lengths


def _slices(record: bytes, at: int, lengths: Sequence[int]) -> tuple[list[bytes], int]:
    parts = []
    for length in lengths:
        parts.append(record[at : at + length])
        at += length
    if at > len(record):
        raise ValueError(f"a changelog record is cut short: {len(record)} bytes, {at} wanted")
    return parts, at
