"""Compute the hashes of `streams.export.hashes` in compiled code, for the columns of a data set."""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np
from numba import uint8
from numpy.typing import NDArray

from streams.export.hashes import INDEX_EXTENSIONS, INDEX_NAMES, KEPT_ESCAPES
from streams.sketch.kernel import jit
from streams.sketch.murmur3 import first_64_bits

_NOT_A_DIGIT = 255
_PERCENT, _SLASH, _QUESTION_MARK, _HOST_END, _DOT = (np.uint8(ord(char)) for char in "%/?).")


def _digit_values() -> NDArray[np.uint8]:
    values = np.full(256, _NOT_A_DIGIT, dtype=np.uint8)
    for digit in "0123456789abcdefABCDEF":
        values[ord(digit)] = int(digit, 16)
    return values


def _length_prefixed(names: tuple[bytes, ...]) -> NDArray[np.uint8]:
    """Return names as rows of bytes, each with the length of the name in its first byte."""
    rows = np.zeros((len(names), 1 + max(map(len, names))), dtype=np.uint8)
    for row, name in zip(rows, names, strict=True):
        row[0] = len(name)
        row[1 : 1 + len(name)] = np.frombuffer(name, np.uint8)
    return rows


_DIGITS = _digit_values()
_IS_KEPT_ESCAPE = np.isin(np.arange(256), list(KEPT_ESCAPES))
_NAMES, _EXTENSIONS = _length_prefixed(INDEX_NAMES), _length_prefixed(INDEX_EXTENSIONS)


@jit()
def hash_bytes(data, start, end):
    """Return the first half of the MurmurHash3 of `data[start:end]` as a signed integer."""
    return np.int64(first_64_bits(data, start, end))


@jit()
def _equals(data, start, end, row):
    """Return whether `data[start:end]` is the name in a row of `_length_prefixed`, ignoring case."""
    if end - start != row[0]:
        return False
    for i in range(end - start):
        byte = data[start + i]
        if uint8(65) <= byte <= uint8(90):
            byte += uint8(32)
        if byte != row[1 + i]:
            return False
    return True


@jit()
def _is_index_file(path, start, end):
    dot = end - 1
    while dot > start and path[dot] != _DOT:
        dot -= 1
    has_name = has_extension = False
    for row in _NAMES:
        has_name |= _equals(path, start, dot, row)
    for row in _EXTENSIONS:
        has_extension |= _equals(path, dot + 1, end, row)
    return has_name and has_extension


@jit()
def normalise(data, start, end, target):
    """Write the `page_key` of the URL key `data[start:end]` to `target`, and return its length.

    `target` must be at least as long as the URL key.
    """
    length, segment, in_query = 0, -1, False
    position = start
    while position < end or not in_query:
        byte = data[position] if position < end else _QUESTION_MARK
        if byte == _QUESTION_MARK and not in_query:
            in_query = True
            if segment >= 0 and _is_index_file(target, segment, length):
                length = segment
            if position == end:
                break
        elif byte == _PERCENT and position + 2 < end:
            high, low = _DIGITS[data[position + 1]], _DIGITS[data[position + 2]]
            if max(high, low) < _NOT_A_DIGIT:
                value = uint8(high * 16 + low)
                if _IS_KEPT_ESCAPE[value]:
                    for i in range(3):
                        char = data[position + i]
                        target[length + i] = char - uint8(32) if char >= uint8(97) else char
                    length += 3
                    position += 3
                    continue
                byte = value
                position += 2
        target[length] = byte
        length += 1
        position += 1
        if byte == _SLASH and not in_query:
            segment = length
    return length


@jit()
def hash_key(data, start, end, scratch):
    """Return the hashes of the page, path and host of a URL key. `scratch` must be at least as long as the key."""
    host_length = 0
    for position in range(start, end):
        if data[position] == _HOST_END:
            host_length = position + 1 - start
            break
    length = normalise(data, start, end, scratch)
    page = hash_bytes(scratch, 0, length)
    path = hash_bytes(scratch, min(host_length, length), length)
    return page, path, hash_bytes(data, start, start + host_length)
