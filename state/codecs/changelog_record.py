"""A record of a partition's changelog: the changes of a batch, as columns.

    value    version 1 │ kind 1 │ section │ section │ ...
    section  family 1 │ rows 4 │ key lengths 2 each │ value lengths 4 each │ keys │ values         puts
             family 1 + 128 │ rows 4 │ key lengths 2 each │ keys                                   deletes

Records of kind 1 contain facts, which are merged into the stored rows. Records of kind 2 are retractions, which
overwrite or delete stored rows. Families are numbered from 0 in the order of `state.families`; no number is reused.
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
_DELETE_FLAG = 128
_SECTION = struct.Struct(">BI")
_HEAD_BYTES = 2


def encode(changes: Changes, *, kind: int = FACTS, record_bytes_max: int = 1 << 20) -> list[bytes]:
    """Encode changes as records of `record_bytes_max` bytes at most. A row that does not fit gets its own record."""
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
            yield _encode_section(_NUMBERS[family] + _DELETE_FLAG, keys[part], None)
    for family, rows in changes.puts.items():
        keys = sorted(rows)
        for part in _split([len(key) + len(rows[key]) + 6 for key in keys], bytes_max):
            yield _encode_section(_NUMBERS[family], keys[part], [rows[key] for key in keys[part]])


def _split(sizes: list[int], bytes_max: int) -> Iterator[slice]:
    start, size = 0, _SECTION.size
    for index, row_bytes in enumerate(sizes):
        if size + row_bytes > bytes_max and index > start:
            yield slice(start, index)
            start, size = index, _SECTION.size
        size += row_bytes
    if len(sizes) > start:
        yield slice(start, len(sizes))


def _encode_section(number: int, keys: list[bytes], values: list[bytes] | None) -> bytes:
    parts = [_SECTION.pack(number, len(keys)), np.fromiter(map(len, keys), ">u2", len(keys)).tobytes()]
    if values is not None:
        parts.append(np.fromiter(map(len, values), ">u4", len(values)).tobytes())
    return b"".join([*parts, *keys, *(values or ())])


def decode(record: bytes) -> tuple[int, Changes]:
    """Decode a record's kind and changes. Raise ValueError, stating the likely cause, if it is invalid."""
    if len(record) < _HEAD_BYTES or record[0] != VERSION or record[1] not in (FACTS, RETRACTION):
        raise ValueError(f"not a changelog record of version {VERSION}: cut short, or written by a newer lostfound")
    changes = Changes()
    offset = _HEAD_BYTES
    while offset < len(record):
        offset = _decode_section(record, offset, changes)
    return record[1], changes


def _decode_section(record: bytes, offset: int, changes: Changes) -> int:
    """Add a section's rows to the changes; return the offset of the next section."""
    if offset + _SECTION.size > len(record):
        raise ValueError(f"a changelog record is cut short at byte {offset}")
    number, count = _SECTION.unpack_from(record, offset)
    offset += _SECTION.size
    if number % _DELETE_FLAG >= len(_FAMILIES):
        raise ValueError(f"a changelog record names family {number % _DELETE_FLAG}: written by a newer lostfound")
    family = _FAMILIES[number % _DELETE_FLAG]
    column_lengths: list[list[int]] = []
    for width in (2,) if number >= _DELETE_FLAG else (2, 4):
        if offset + count * width > len(record):
            raise ValueError(f"a changelog record is cut short at byte {offset}")
        column_lengths.append(np.frombuffer(record, f">u{width}", count, offset).tolist())
        offset += count * width
    columns = []
    for lengths in column_lengths:
        bounds = list(accumulate(lengths, initial=offset))
        columns.append([record[start:end] for start, end in pairwise(bounds)])
        offset = bounds[-1]
    if offset > len(record):
        raise ValueError(f"a changelog record is cut short: it has {len(record)} bytes and needs {offset}")
    if number >= _DELETE_FLAG:
        changes.deletes.setdefault(family, set()).update(columns[0])
    else:
        changes.puts_of(family).update(zip(*columns, strict=True))
    return offset
