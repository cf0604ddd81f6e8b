"""Read a JSON array with one page per element, as `scrapy -o pages.json` writes it.

The array is split into elements while it is read, so memory contains only one element at a time. Several arrays in
one file are read as one array, because Scrapy appends a second array when it runs again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from streams.page import Origin, Page, Rejected
from streams.readers.byte_stream import ByteStream
from streams.readers.page_line import PageLine, parse_line
from streams.readers.position import Position, PositionedItem
from streams.readers.read_limits import ReadLimits

_SEPARATORS = re.compile(rb"[\s,\[\]\xef\xbb\xbf]*+")
_OUTSIDE_STRINGS = re.compile(rb"[^\"{}\[\],]*+")
_IN_STRING = re.compile(rb"(?:[^\"\\\n]++|\\[^\n])*+")
_OBJECT_START = re.compile(rb"\{")


class _Element(msgspec.Struct):
    """An element while it is read: its bytes, unless it is too long, and how it ended."""

    data: bytes = b""
    size: int = 0
    end: str = ""  # "complete", "newline" (in a string), or "" if the input ended or too many bytes were skipped


def read_items(
    stream: ByteStream, limits: ReadLimits, start: Position, line_type: type[PageLine] = PageLine
) -> Iterator[PositionedItem]:
    """Yield all pages and rejections of a stream that begins at `start`, each with the position after it.

    In positions and rejections, the number of the element, counted from 0, replaces the line number of JSONL.
    """
    number = start.next_line
    last_separator = b"]" if number else b""  # reading may start after the end of the array
    while True:
        last_separator = _skip_separators(stream) or last_separator
        element_start = stream.position()
        origin = Origin(start.source, number, start.member)
        item: Page | Rejected
        cut_off = stream.peek() < 0
        if not cut_off:
            element = _read_element(stream, limits)
            item = _convert(element, stream, limits, origin, line_type)
            cut_off = not element.end
            if element.end == "newline":
                stream.skip_to(_OBJECT_START, 0)
        elif last_separator != b"]":
            item = Rejected(stream.fault.reason or "truncated", "the input ends before the array does", origin)
        elif stream.fault.reason:
            item = Rejected(stream.fault.reason, stream.fault.detail, origin)
        else:
            return
        number += not cut_off
        yield start.moved_to(element_start if cut_off else stream.position(), number, cut_off=cut_off), item
        last_separator = b""
        if cut_off:
            return


def _skip_separators(stream: ByteStream) -> bytes:
    """Skip white space, commas and brackets between elements. Return the last comma or bracket, or b"" if none."""
    last = b""
    while skipped := stream.read_match(_SEPARATORS, 1 << 16):
        last = skipped.strip()[-1:] or last
    return last


def _read_element(stream: ByteStream, limits: ReadLimits) -> _Element:
    """Read an element up to its end, and the comma or bracket after an element that is not an object."""
    element, depth, in_string = _Element(), 0, False
    content = bytearray()  # a list of millions of short parts would take fifty times as much memory
    while element.size <= limits.line_bytes_max + limits.skip_bytes_max:
        data = stream.read_match(_IN_STRING if in_string else _OUTSIDE_STRINGS, limits.line_bytes_max)
        data = data or stream.read(1)
        if not data:
            break
        element.size += len(data)
        if element.size <= limits.line_bytes_max:
            content += data
        else:
            content.clear()
        if in_string:
            if data == b"\n":
                element.end = "newline"
                break
            if data == b"\\":  # the rest of the escape is in the next chunk
                content += stream.read(1)
            in_string = data != b'"'
        elif data == b'"':
            in_string = True
        else:
            depth += (data in {b"{", b"["}) - (data in {b"}", b"]"})
            if depth <= 0 and data in {b"}", b"]", b","}:
                element.end = "complete"
                break
    element.data = bytes(content)
    return element


def _convert(
    element: _Element, stream: ByteStream, limits: ReadLimits, origin: Origin, line_type: type[PageLine]
) -> Page | Rejected:
    if element.size > limits.line_bytes_max:
        return Rejected("too_big", f"the element is longer than line_bytes_max {limits.line_bytes_max}", origin)
    if element.end == "newline":
        return Rejected("bad_json", "a string contains a newline", origin)
    if not element.end:
        detail = stream.fault.detail or "the input ends within an element"
        return Rejected(stream.fault.reason or "truncated", detail, origin)
    return parse_line(element.data, limits, origin, line_type)[0]
