"""A record of a partition's changelog: the changes of a batch, as columns.

    value    version 1 │ kind 1 │ section │ section │ ...
    section  family 1 │ rows 4 │ key lengths 2 each │ value lengths 4 each │ keys │ values         puts
             family 1 + 128 │ rows 4 │ key lengths 2 each │ keys                                   deletes

Records of kind 1 contain facts, which are merged into the stored rows. Records of kind 2 are retractions (of deleted
data), which overwrite them. Families are numbered from 0 in the order of `state.families`; no number is reused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate, pairwise

import numpy as np

from state.changes import Changes
from state.families import Family

VERSION = 1
FACTS, RETRACTION = 1, 2
_FAMILIES = list(Family)
_NUMBERS = {family: number for number, family in enumerate(_FAMILIES)}
_DELETES = 128
_SECTION = struct.Struct(">BI")
_HEAD_BYTES = 2


def encode(changes: Changes, *, kind: int = FACTS, record_bytes_max: int = 1 << 20) -> list[bytes]:
    """Encode changes as records of at most `record_bytes_max` bytes; a longer row gets a separate record."""
    assert kind in (FACTS, RETRACTION)
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
    for family, deleted in changes.deletes.items():
        keys = sorted(deleted)
        for part in _split([len(key) + 2 for key in keys], bytes_max):
            yield _encode_section(_NUMBERS[family] + _DELETES, keys[part], None)
    for family, rows in changes.puts.items():
        keys = sorted(rows)
        for part in _split([len(key) + len(rows[key]) + 6 for key in keys], bytes_max):
            yield _encode_section(_NUMBERS[family], keys[part], [rows[key] for key in keys[part]])


def _split(sizes: list[int], bytes_max: int) -> Iterator[slice]:
    start, size = 0, _SECTION.size
    for at, row_bytes in enumerate(sizes):
        if size + row_bytes > bytes_max and at > start:
            yield slice(start, at)
            start, size = at, _SECTION.size
        size += row_bytes
    if len(sizes) > start:
        yield slice(start, len(sizes))


def _encode_section(number: int, keys: list[bytes], values: list[bytes] | None) -> bytes:
    parts = [_SECTION.pack(number, len(keys)), np.fromiter(map(len, keys), ">u2", len(keys)).tobytes()]
    if values is not None:
        parts.append(np.fromiter(map(len, values), ">u4", len(values)).tobytes())
    return b"".join([*parts, *keys, *(values or ())])


def decode(record: bytes) -> tuple[int, Changes]:
    """Decode a record's kind and changes; raises ValueError with the likely cause."""
    if len(record) < _HEAD_BYTES or record[0] != VERSION or record[1] not in (FACTS, RETRACTION):
        raise ValueError(f"not a changelog record of version {VERSION}: cut short, or written by a newer lostfound")
    changes = Changes()
    at = _HEAD_BYTES
    while at < len(record):
        at = _decode_section(record, at, changes)
    return record[1], changes


def _decode_section(record: bytes, at: int, changes: Changes) -> int:
    """Add a section's rows to the changes; return the position after it."""
    if at + _SECTION.size > len(record):
        raise ValueError(f"a changelog record is cut short at byte {at}")
    number, count = _SECTION.unpack_from(record, at)
    at += _SECTION.size
    if number % _DELETES >= len(_FAMILIES):
        raise ValueError(f"a changelog record names family {number % _DELETES}: written by a newer lostfound")
    family = _FAMILIES[number % _DELETES]
    column_lengths: list[list[int]] = []
    for width in (2,) if number >= _DELETES else (2, 4):
        if at + count * width > len(record):
            raise ValueError(f"a changelog record is cut short at byte {at}")
        column_lengths.append(np.frombuffer(record, f">u{width}", count, at).tolist())
        at += count * width
    columns = []
    for lengths in column_lengths:
        bounds = list(accumulate(lengths, initial=at))
        columns.append([record[start:end] for start, end in pairwise(bounds)])
        at = bounds[-1]
    if at > len(record):
        raise ValueError(f"a changelog record is cut short: it has {len(record)} bytes and needs {at}")
    if number >= _DELETES:
        changes.deletes.setdefault(family, set()).update(columns[0])
    else:
        changes.family(family).update(zip(*columns, strict=True))
    return at
