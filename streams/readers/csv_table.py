"""Read a CSV with a header and one page per row, as `scrapy -o pages.csv` writes it.

The bytes are split into rows here, and the standard `csv` module splits each row into fields. Only one row is in
memory at a time, and a malformed row does not affect others.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

import msgspec

from streams.page import Origin, Page, Rejected
from streams.readers.byte_stream import ByteStream
from streams.readers.page_line import PageLine, parse_row
from streams.readers.position import Position, PositionedItem
from streams.readers.read_limits import ReadLimits

_QUOTED = re.compile(rb"(?:[^\"]++|\"\")*+")
_BOM = "\ufeff"
_SKIP_BYTES = 64 << 10  # per read, when skipping the rest of a row
_NAMES_SHOWN_MAX = 300


class _Row(msgspec.Struct, frozen=True):
    """The bytes of a row. The row is incomplete if the input ended in it, or if it exceeds `skip_bytes_max`."""

    data: bytes
    is_complete: bool
    is_too_long: bool = False


def read_names(head: bytes) -> list[str]:
    """Return the column names in the decompressed first bytes of a file, or [] if these bytes are not CSV."""
    limits = ReadLimits()
    row = _read_row(ByteStream(io.BytesIO(head), "plain", limits), limits)
    try:
        fields = _split(row.data)
    except (UnicodeDecodeError, csv.Error):
        return []
    return [name.strip(_BOM + " \t") for name in fields] if row.is_complete else []


def read_items(
    stream: ByteStream, limits: ReadLimits, start: Position, names: list[str], line_type: type[PageLine] = PageLine
) -> Iterator[PositionedItem]:
    """Yield all pages and rejections of a stream that begins at `start`, each with the position after it.

    `names` are the names of the columns. In positions and rejections, the number of the row replaces the line number
    of JSONL. Rows are counted from 0, without the header.
    """
    number = start.next_line
    if stream.position() == (0, 0):
        _read_row(stream, limits)
    csv.field_size_limit(limits.line_bytes_max)
    while True:
        row_start = stream.position()
        origin = Origin(start.source, number, start.member)
        row = _read_row(stream, limits)
        if not row.data and not stream.fault.reason:
            return
        item = _convert_row(row, stream, limits, origin, names, line_type)
        cut_off = (
            not row.is_complete
            or bool(stream.fault.reason and not row.data.endswith(b"\n"))
            or (isinstance(item, Rejected) and item.reason == "truncated")
        )
        number += not cut_off
        if item is not None:
            yield start.moved_to(row_start if cut_off else stream.position(), number, cut_off=cut_off), item
        if cut_off:
            return


def _convert_row(
    row: _Row, stream: ByteStream, limits: ReadLimits, origin: Origin, names: list[str], line_type: type[PageLine]
) -> Page | Rejected | None:
    """Return the page or rejection of a row, or None for a blank line."""
    if row.is_too_long:
        return Rejected("too_big", f"the row is longer than line_bytes_max {limits.line_bytes_max}", origin)
    if stream.fault.reason and not row.data.endswith(b"\n"):
        return Rejected(stream.fault.reason, stream.fault.detail, origin)
    if not row.is_complete:
        return Rejected("truncated", "the input ends within a quoted field", origin)
    try:
        fields = _split(row.data)
    except UnicodeDecodeError as error:
        return Rejected("bad_utf8", str(error)[:200], origin)
    except csv.Error as error:
        return Rejected("bad_csv", str(error), origin)
    if not fields:
        return None
    if len(fields) < len(names) and not row.data.endswith(b"\n"):
        return Rejected("truncated", f"the last row has {len(fields)} of {len(names)} fields", origin)
    if len(fields) > len(names):
        detail = f"the row has {len(fields)} fields, but the header names only {len(names)} columns"
        return Rejected("bad_csv", detail, origin)
    cells = {name: field for name, field in zip(names, fields, strict=False) if field}
    return parse_row(cells, len(row.data), limits, origin, line_type)


def _split(data: bytes) -> list[str]:
    """Return the fields of a row, or [] for a blank line. Raise UnicodeDecodeError or csv.Error for a bad row."""
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    if len(rows) > 1:
        raise csv.Error("the row contains a newline that is not in quotes")
    return rows[0] if rows else []


def _read_row(stream: ByteStream, limits: ReadLimits) -> _Row:
    """Read lines up to a newline that is not in quotes. Skip the bytes above `line_bytes_max`."""
    data = bytearray()
    size, in_quotes = 0, False
    bytes_max = limits.line_bytes_max
    while size < bytes_max and (line := stream.read_line(bytes_max - size)):
        data += line
        size += len(line)
        in_quotes = _ends_in_quotes(line, in_quotes=in_quotes)
        if line.endswith(b"\n") and not in_quotes:
            return _Row(bytes(data), is_complete=True)
    if size < bytes_max or stream.peek() < 0:
        return _Row(bytes(data), is_complete=not in_quotes)
    while size <= bytes_max + limits.skip_bytes_max and (line := stream.read_line(_SKIP_BYTES)):
        size += len(line)
        in_quotes = _ends_in_quotes(line, in_quotes=in_quotes)
        if line.endswith(b"\n") and not in_quotes:
            return _Row(bytes(data[:1]), is_complete=True, is_too_long=True)
    return _Row(bytes(data[:1]), is_complete=False, is_too_long=True)


def _ends_in_quotes(line: bytes, *, in_quotes: bool) -> bool:
    """Return whether a line ends within a quoted field. `in_quotes`: whether the line begins within such a field."""
    if not in_quotes and b'"' not in line:
        return False
    index = 0
    while True:
        if in_quotes:
            quoted = _QUOTED.match(line, index)
            index = quoted.end() if quoted else index
            if index == len(line):
                return True
            index += 1
        elif line[index : index + 1] == b'"':
            in_quotes, index = True, index + 1
            continue
        in_quotes = False
        index = line.find(b",", index) + 1
        if not index:
            return False


def describe_missing_url(source: str, names: list[str], url_column: str) -> str:
    """Return the `detail` for a CSV whose header lacks the column with the URLs."""
    columns = ", ".join(names)[:_NAMES_SHOWN_MAX] or "no columns"
    return (
        f"{source} is a CSV without the column {url_column!r}: its header has {columns}; "
        "name the column of the URLs with `--field url=COLUMN`"
    )
