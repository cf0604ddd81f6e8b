"""A record of a partition's changelog: the changes of a batch, as columns.

    record   version 1 B │ kind 1 B │ section │ section │ ...
    puts     family 1 B │ row count 4 B │ key lengths 2 B each │ value lengths 4 B each │ keys │ values
    deletes  family + 128, 1 B │ row count 4 B │ key lengths 2 B each │ keys

A section contains puts or deletes. Records of kind 1 contain facts: rows that are merged into the stored rows.
Records of kind 2 are retractions, which overwrite or delete stored rows. A family's number is its position in
`Family`, counted from 0. Numbers are never reused. A claim, with which a worker takes over a partition, has no
sections.
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
CLAIM = bytes((VERSION, FACTS))
_FAMILIES = list(Family)
_FAMILY_NUMBERS = {family: family_number for family_number, family in enumerate(_FAMILIES)}
_DELETE_FLAG = 128
_SECTION = struct.Struct(">BI")
_HEAD_BYTES, _KEY_LENGTH_BYTES, _VALUE_LENGTH_BYTES = 2, 2, 4


def encode(changes: Changes, *, kind: int = FACTS, record_bytes_max: int = 1 << 20) -> list[bytes]:
    """Encode changes as records of at most `record_bytes_max` bytes. A larger row gets a record of its own."""
    assert kind in (FACTS, RETRACTION)
    records: list[list[bytes]] = []
    record_bytes = record_bytes_max  # so that the first section starts a record
    for section in _sections(changes, record_bytes_max - _HEAD_BYTES):
        if record_bytes + len(section) > record_bytes_max:
            records.append([bytes((VERSION, kind))])
            record_bytes = _HEAD_BYTES
        records[-1].append(section)
        record_bytes += len(section)
    return [b"".join(parts) for parts in records]


def _sections(changes: Changes, bytes_max: int) -> Iterator[bytes]:
    for family, deleted in changes.deletes.items():
        keys = sorted(deleted)
        for part in _slices([_KEY_LENGTH_BYTES + len(key) for key in keys], bytes_max):
            yield _encode_section(_FAMILY_NUMBERS[family] + _DELETE_FLAG, keys[part], None)
    for family, rows in changes.puts.items():
        keys = sorted(rows)
        lengths_bytes = _KEY_LENGTH_BYTES + _VALUE_LENGTH_BYTES
        for part in _slices([lengths_bytes + len(key) + len(rows[key]) for key in keys], bytes_max):
            yield _encode_section(_FAMILY_NUMBERS[family], keys[part], [rows[key] for key in keys[part]])


def _slices(row_sizes: list[int], bytes_max: int) -> Iterator[slice]:
    """Yield slices of rows that each fit in a section of `bytes_max` bytes, or contain a single larger row."""
    start, section_bytes = 0, _SECTION.size
    for index, row_bytes in enumerate(row_sizes):
        if section_bytes + row_bytes > bytes_max and index > start:
            yield slice(start, index)
            start, section_bytes = index, _SECTION.size
        section_bytes += row_bytes
    if len(row_sizes) > start:
        yield slice(start, len(row_sizes))


def _encode_section(family_byte: int, keys: list[bytes], values: list[bytes] | None) -> bytes:
    parts = [_SECTION.pack(family_byte, len(keys)), np.fromiter(map(len, keys), ">u2", len(keys)).tobytes()]
    if values is not None:
        parts.append(np.fromiter(map(len, values), ">u4", len(values)).tobytes())
    return b"".join([*parts, *keys, *(values or ())])


def decode(record: bytes) -> tuple[int, Changes]:
    """Decode the kind and the changes of a record. Raise ValueError if it is invalid."""
    if len(record) < _HEAD_BYTES or record[0] != VERSION or record[1] not in (FACTS, RETRACTION):
        raise ValueError(
            f"invalid changelog record (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    changes = Changes()
    offset = _HEAD_BYTES
    while offset < len(record):
        offset = _decode_section(record, offset, changes)
    return record[1], changes


def _decode_section(record: bytes, offset: int, changes: Changes) -> int:
    """Add the rows of a section to `changes`. Return the offset of the next section."""
    if offset + _SECTION.size > len(record):
        raise ValueError(f"a changelog record is truncated after byte {offset}")
    family_byte, count = _SECTION.unpack_from(record, offset)
    offset += _SECTION.size
    is_delete, family_number = divmod(family_byte, _DELETE_FLAG)
    if family_number >= len(_FAMILIES):
        raise ValueError(
            f"a changelog record has rows of the unknown family {family_number}: from a newer version of lostfound"
        )
    family = _FAMILIES[family_number]
    column_lengths: list[list[int]] = []
    for width in (_KEY_LENGTH_BYTES,) if is_delete else (_KEY_LENGTH_BYTES, _VALUE_LENGTH_BYTES):
        if offset + count * width > len(record):
            raise ValueError(f"a changelog record is truncated after byte {offset}")
        column_lengths.append(np.frombuffer(record, f">u{width}", count, offset).tolist())
        offset += count * width
    columns = []
    for lengths in column_lengths:
        bounds = list(accumulate(lengths, initial=offset))
        columns.append([record[start:end] for start, end in pairwise(bounds)])
        offset = bounds[-1]
    if offset > len(record):
        raise ValueError(f"a changelog record has {len(record)} bytes, expected at least {offset}: truncated")
    if is_delete:
        changes.deletes.setdefault(family, set()).update(columns[0])
    else:
        changes.puts_of(family).update(zip(*columns, strict=True))
    return offset
