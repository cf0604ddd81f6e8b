"""Find the links in HTML in one pass over its bytes, compiled by numba, without building a tree.

    <a href="...">anchor text</a>     <area href="...">     <link rel="..." href="...">     <base href="...">
    ▲start        ▲content  ▲end

Only the rules of the HTML standard's tokeniser are needed to find tags: comments, quoted attributes and elements
whose content is not markup. The scan is linear in the size of the page, also for malformed pages: no byte is read
more than twice.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint8, uint64
from numpy.typing import NDArray

from streams.sketch.kernel import jit, load_8_bytes
from streams.sketch.link_records import IN_NAVIGATION, A

TEXT_BYTES_MAX = 4_096  # of a link's anchor text with its markup; more is cut
_NAME_BYTES_MAX = 8  # longer names are cut, which is enough to distinguish the names below


def packed(*names: str) -> NDArray[np.uint64]:
    """Return names as numbers with one byte per letter."""
    return np.array([int.from_bytes(name.encode()[:_NAME_BYTES_MAX], "big") for name in names], dtype=np.uint64)


_LINK_NAMES = packed("a", "area", "link", "base")  # by their number
# The content of these elements is not markup, or is not shown.
_OPAQUE_NAMES = packed("script", "style", "title", "textarea", "template", "noscript", "iframe", "xmp", "noembed")
_NAVIGATION_NAMES = packed("nav", "footer", "aside")
_OTHER_NAME = 1
_DEPTH_MAX = 1 << 20


def _first_letters() -> NDArray[np.bool_]:
    """Return a table of five bits of each of a name's first two letters: whether one of the names above begins so."""
    table = np.zeros((32, 32), dtype=np.bool_)
    for names in (_LINK_NAMES, _OPAQUE_NAMES, _NAVIGATION_NAMES):
        for name in names.tolist():
            first, *others = name.to_bytes(_NAME_BYTES_MAX, "big").lstrip(b"\0")
            table[first & 31, others[0] & 31 if others else slice(None)] = True
    return table


_FIRST_LETTERS = _first_letters()
_COLUMNS = 4
_PADDING = b"<>" + bytes(8)  # ends every search for a tag, and lets the last bytes be read in a block of eight
_PADDING_BYTES = len(_PADDING)
_ONES, _HIGH_BITS = 0x0101010101010101, 0x8080808080808080  # in each byte of a block
_OFFSETS = 0x0001020304050607  # `_first_match` moves one of these bytes to the top


class Scan(NamedTuple):
    """The links of a page.

    A row contains the element, plus IN_NAVIGATION if it is in navigation, and three byte offsets: the start of the
    tag, the end of the tag, and the end of the anchor text, which is the end of the tag unless the element is <a>.
    """

    buffer: NDArray[np.uint8]  # the page, followed by `_PADDING`
    rows: NDArray[np.int64]  # int64[n, 4]
    dropped: int  # the number of further links beyond `links_max`


def scan(data: bytes, links_max: int) -> Scan:
    """Find the links of a page in UTF-8."""
    buffer = np.frombuffer(data + _PADDING, dtype=np.uint8)
    rows = np.empty((min(links_max, len(data) // 3 + 1), _COLUMNS), dtype=np.int64)
    count = int(_scan(buffer, rows))
    stored = min(count, len(rows))
    return Scan(buffer, rows[:stored], count - stored)


@jit(inline="always")
def _zero_bytes(block):
    """Return the high bits of the bytes that are 0. Only the lowest bit that is set is certain."""
    return (block - uint64(_ONES)) & ~block & uint64(_HIGH_BITS)


@jit(inline="always")
def _first_match(matches):
    """Return the number of the first byte of a block whose high bit is set in `matches`."""
    return ((matches & -matches) >> uint64(7)) * uint64(_OFFSETS) >> uint64(56)


@jit(inline="always")
def _find(data, start, byte):
    """Return the offset of the next such byte, or one behind the page."""
    i, size, pattern = start, uint64(data.size - _PADDING_BYTES), uint64(byte) * uint64(_ONES)
    while i <= size:
        matches = _zero_bytes(load_8_bytes(data, i) ^ pattern)
        if matches:
            return i + _first_match(matches)
        i += uint64(8)
    return i


@jit()
def _read_name(data, start):
    """Return the packed name of the tag whose name begins at `start`, and an offset in or behind the name.

    The name is 0 if no tag begins there, and _OTHER_NAME if it is not one of the names above.
    """
    name, end = uint64(0), start
    if not uint8(0x61) <= data[start] | uint8(0x20) <= uint8(0x7A):
        return name, end
    if not _FIRST_LETTERS[data[start] & uint8(31), data[start + uint64(1)] & uint8(31)]:
        return uint64(_OTHER_NAME), end
    while end < uint64(data.size):
        letter = data[end] | uint8(0x20)
        is_letter = uint8(0x61) <= letter <= uint8(0x7A)
        is_digit_or_hyphen = uint8(0x30) <= data[end] <= uint8(0x39) or data[end] == uint8(0x2D)
        if not is_letter and (end == start or not is_digit_or_hyphen):
            break
        if end - start < uint64(_NAME_BYTES_MAX):
            name = name << uint64(8) | uint64(letter if is_letter else data[end])
        end += uint64(1)
    ends = data[end] <= uint8(0x20) or data[end] == uint8(0x2F) or data[end] == uint8(0x3E)  # space, `/` or `>`
    if name and (not ends or end - start > uint64(_NAME_BYTES_MAX)):
        name = uint64(_OTHER_NAME)
    return name, end


@jit()
def _find_tag_end(data, start):
    """Return the offset behind the `>` that ends a tag; quoted attribute values may contain `>`.

    If the tag does not end, return an offset behind the page.
    """
    i, size = start, uint64(data.size - _PADDING_BYTES)
    while i < size:
        block = load_8_bytes(data, i)
        matches = _zero_bytes(block ^ uint64(0x3E * _ONES)) | _zero_bytes(block ^ uint64(0x3D * _ONES))
        if not matches:
            i += uint64(8)
            continue
        i += _first_match(matches) + uint64(1)
        if data[i - uint64(1)] == uint8(0x3E):
            return i
        while data[i] <= uint8(0x20) and i < size:  # spaces may follow the `=`
            i += uint64(1)
        quote = data[i]
        if quote == uint8(0x22) or quote == uint8(0x27):
            i = _find(data, i + uint64(1), quote) + uint64(1)
        else:
            while data[i] > uint8(0x20) and data[i] != uint8(0x3E):  # the padding contains `>`
                i += uint64(1)
    return uint64(data.size)


@jit()
def _find_comment_end(data, start):
    """Return the offset behind the `-->` or `--!>` that ends a comment."""
    i = start
    while i + uint64(2) < uint64(data.size - _PADDING_BYTES):
        if data[i] == uint8(0x2D) and data[i + uint64(1)] == uint8(0x2D):
            if data[i + uint64(2)] == uint8(0x3E):
                return i + uint64(3)
            if data[i + uint64(2)] == uint8(0x21) and data[i + uint64(3)] == uint8(0x3E):
                return i + uint64(4)
        i += uint64(1)
    return uint64(data.size)


@jit()
def _find_declaration_end(data, start):
    """Return the offset behind a comment, a <!DOCTYPE> or another declaration, whose `!` or `?` is at `start`."""
    if (
        data[start] == uint8(0x21)
        and data[start + uint64(1)] == uint8(0x2D)
        and data[start + uint64(2)] == uint8(0x2D)
    ):
        return _find_comment_end(data, start + uint64(1))
    return _find(data, start, 0x3E) + uint64(1)


@jit()
def _scan(data, rows):
    size = uint64(data.size - _PADDING_BYTES)
    count, depth = uint64(0), 0
    open_row, is_open = uint64(0), False  # the row of the last <a>, and whether its end is still to be found
    opaque = uint64(0)  # the name of the open opaque element
    i = uint64(0)
    while i < size:
        i = _find(data, i, 0x3C)
        if i >= size:
            break
        start = i
        i += uint64(1)
        if not opaque and (data[i] == uint8(0x21) or data[i] == uint8(0x3F)):  # `!` or `?`
            i = _find_declaration_end(data, i)
            continue
        is_end_tag = data[i] == uint8(0x2F)
        name, name_end = _read_name(data, i + uint64(is_end_tag))
        if not name:
            continue
        if opaque:
            if is_end_tag and name == opaque:
                opaque = uint64(0)
            continue
        i = _find_tag_end(data, name_end)
        if i > size:
            break
        if name == uint64(_OTHER_NAME):
            continue
        if is_open and name == _LINK_NAMES[A]:
            rows[open_row, 3] = min(start, uint64(rows[open_row, 2]) + uint64(TEXT_BYTES_MAX))
            is_open = False
        for navigation_name in _NAVIGATION_NAMES:
            if name == navigation_name:
                depth = max(depth - 1, 0) if is_end_tag else min(depth + 1, _DEPTH_MAX)
        if is_end_tag:
            continue
        for opaque_name in _OPAQUE_NAMES:
            if name == opaque_name:
                opaque = name
        for tag in range(_LINK_NAMES.size):
            if name != _LINK_NAMES[tag]:
                continue
            if count < uint64(rows.shape[0]):
                row = rows[count]
                row[0], row[1], row[2], row[3] = tag | (IN_NAVIGATION if depth else 0), start, i, i
                if tag == A:
                    open_row, is_open = count, True
                    row[3] = min(size, i + uint64(TEXT_BYTES_MAX))
            count += uint64(1)
    return count
