"""Read JSONL with one page per line; `page_line.py` converts a line to a page."""

from __future__ import annotations

from collections.abc import Iterator

from streams.page import Origin, Page, Rejected
from streams.readers.byte_stream import ByteStream
from streams.readers.page_line import PageLine, parse_line
from streams.readers.position import Position, PositionedItem
from streams.readers.read_limits import ReadLimits

_BOM = b"\xef\xbb\xbf"


def read_items(
    stream: ByteStream, limits: ReadLimits, start: Position, line_type: type[PageLine] = PageLine
) -> Iterator[PositionedItem]:
    """Yield all pages and rejections of a stream that begins at `start`, each with the position after it."""
    next_line = start.next_line
    while True:
        line_start = stream.position()
        origin = Origin(start.source, next_line, start.member)
        line = stream.read_line(limits.line_bytes_max)
        item: Page | Rejected | None
        if stream.fault.reason and not line.endswith(b"\n"):
            item = Rejected(stream.fault.reason, stream.fault.detail, origin)
            cut_off = stream.fault.reason == "truncated" or not stream.resync(lambda head: head.startswith(b'{"'))
        elif line:
            item = _convert_line(line, stream, limits, origin, line_type)
            cut_off = isinstance(item, Rejected) and item.reason == "truncated" and not line.endswith(b"\n")
        else:
            return
        next_line += bool(line and not cut_off)  # the next run reads a cut-off line again
        if item is not None:
            yield start.moved_to(line_start if cut_off else stream.position(), next_line, cut_off=cut_off), item
        if cut_off:
            return


def _convert_line(
    line: bytes, stream: ByteStream, limits: ReadLimits, origin: Origin, line_type: type[PageLine]
) -> Page | Rejected | None:
    """Return the page or rejection of a line, or None for a blank line. Skip the rest of a line that is too long."""
    is_complete = line.endswith(b"\n")
    if not is_complete and len(line) >= limits.line_bytes_max and stream.peek() >= 0:
        stream.skip_line()
        return Rejected("too_big", f"the line is longer than line_bytes_max {limits.line_bytes_max}", origin)
    if origin.offset == 0:
        line = line.removeprefix(_BOM)
    if line.isspace():
        return None
    return parse_line(line, limits, origin, line_type, is_complete=is_complete)[0]
