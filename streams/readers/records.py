"""Iterate over the records of a WARC or ARC stream, and recover after damaged ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from streams.page import Origin, Page, Rejected
from streams.readers.byte_stream import ByteStream
from streams.readers.compression import IsRecordStart
from streams.readers.position import Position, PositionedItem
from streams.readers.read_limits import ReadLimits

_NEWLINES = frozenset(b"\r\n")


class RecordFormat(msgspec.Struct, frozen=True):
    """How to recognise and read the records of one format."""

    is_record_start: IsRecordStart
    header_pattern: re.Pattern[bytes]  # matches the start of a record's header, but hardly anything in garbage
    header_match_bytes_max: int  # no match of `header_pattern` is longer
    read_record: Callable[[ByteStream, ReadLimits, Origin], Page | Rejected | None]  # None if the record has no page


def read_items(
    stream: ByteStream, record_format: RecordFormat, limits: ReadLimits, start: Position
) -> Iterator[PositionedItem]:
    """Yield all pages and rejections of a stream that begins at `start`, each with the position after it."""
    whitespace_bytes, is_first_record = 0, stream.position() == (0, 0)
    while True:
        whitespace_bytes += stream.skip_whitespace()
        record_start = stream.position()
        origin = Origin(start.source, record_start[0], start.member)
        item: Page | Rejected | None
        if stream.peek() >= 0:
            item = record_format.read_record(stream, limits, origin)
        elif stream.fault.reason:
            item = Rejected(stream.fault.reason, stream.fault.detail, origin)
        elif whitespace_bytes and is_first_record:
            item = Rejected("garbage", f"no record, only {whitespace_bytes} NULs, spaces and newlines", origin)
        else:
            return
        is_first_record = False
        cut_off = isinstance(item, Rejected) and not _recover(stream, record_format, item)
        if item is not None:
            yield start.moved_to(record_start if cut_off else stream.position(), cut_off=cut_off), item
        if cut_off:
            return


def _recover(stream: ByteStream, record_format: RecordFormat, rejected: Rejected) -> bool:
    """After a rejected record, move to the next record. Return False if reading cannot continue."""
    if rejected.reason in {"garbage", "bad_length", "bad_header"} and not stream.fault.reason:
        stream.skip_to(record_format.header_pattern, record_format.header_match_bytes_max)
    if "truncated" in {rejected.reason, stream.fault.reason}:
        return False
    return not stream.fault.reason or stream.resync(record_format.is_record_start)


def read_content(
    stream: ByteStream, size: int, is_record_start: IsRecordStart, limits: ReadLimits, origin: Origin, url: str
) -> bytes | Rejected:
    """Read the `size` bytes of a record's content. Reject the record if it does not end after them.

    If the content is too big for a page, return only its start, which contains the HTTP headers, and skip the rest.
    """
    is_too_big = size > limits.page_bytes_max + limits.header_bytes_max
    data = stream.read(limits.header_bytes_max if is_too_big else size, is_record_start)
    bytes_read = len(data) + (stream.skip(size - len(data), is_record_start) if is_too_big else 0)
    if bytes_read < size or not (is_too_big or _at_record_end(stream)):
        return _reject_incomplete(stream, size, bytes_read, origin, url)
    return data


def skip_content(
    stream: ByteStream, size: int, is_record_start: IsRecordStart, origin: Origin, url: str
) -> Rejected | None:
    """Skip the `size` bytes of a record's content. Reject the record if it does not end after them."""
    skipped = stream.skip(size, is_record_start)
    is_complete = skipped == size and _at_record_end(stream)
    return None if is_complete else _reject_incomplete(stream, size, skipped, origin, url)


def _reject_incomplete(stream: ByteStream, size: int, bytes_read: int, origin: Origin, url: str) -> Rejected:
    """Return the rejection of a record that is cut off, or whose content does not have its stated size."""
    if stream.peek() >= 0:
        return Rejected("bad_length", f"the record does not end after its stated length of {size} bytes", origin, url)
    return reject_cut_off(stream, f"the input ends after {bytes_read} of {size} bytes", origin, url)


def reject_cut_off(stream: ByteStream, detail: str, origin: Origin, url: str = "") -> Rejected:
    """Return the rejection of a record in which the stream ends. A fault of the stream replaces `detail`."""
    return Rejected(stream.fault.reason or "truncated", stream.fault.detail or detail, origin, url)


def _at_record_end(stream: ByteStream) -> bool:
    """Return whether a record may end here: before a newline or a frame, or at the end of the input."""
    return stream.peek() in _NEWLINES or stream.peek() < 0 or stream.at_frame_start()
