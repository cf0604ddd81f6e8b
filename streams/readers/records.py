"""What WARC and ARC share: one record after another out of a stream that may be broken anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from streams.page import Origin, Page, Rejected
from streams.readers.http_payload import Block
from streams.readers.position import Item, Position
from streams.readers.read_limits import ReadLimits
from streams.readers.unpack import IsRecordStart, Unpacked

_NEWLINES = frozenset(b"\r\n")


class Framing(msgspec.Struct, frozen=True):
    """How one format's records begin and are read."""

    is_record_start: IsRecordStart
    header: re.Pattern[bytes]  # a record's first line, sure enough to be looked for within rubbish
    header_bytes: int  # more than `header` matches
    read_record: Callable[[Unpacked, ReadLimits, Origin], Page | Rejected | None]  # None: understood, and no page


def read_items(
    stream: Unpacked, framing: Framing, limits: ReadLimits, source: str, member: str = ""
) -> Iterator[Item]:
    """All pages and refusals of a stream, each with the place after it. Raises nothing for bad content."""
    blank, records = 0, stream.place() != (0, 0)
    while True:
        blank += stream.skip_blank()
        begun = stream.place()
        origin = Origin(source, begun[0], member)
        item: Page | Rejected | None
        if stream.first() >= 0:
            item = framing.read_record(stream, limits, origin)
        elif stream.fault:
            item = Rejected(stream.fault, stream.fault_detail, origin)
        elif blank and not records:
            item = Rejected("garbage", f"no record, but {blank} NULs, spaces and newlines", origin)
        else:
            return
        records = True
        cut = isinstance(item, Rejected) and not _recovers(stream, framing, item)
        if item is not None:
            offset, inner = begun if cut else stream.place()
            yield Position(source, member, offset, inner, cut=cut), item
        if cut:
            return


def _recovers(stream: Unpacked, framing: Framing, item: Rejected) -> bool:
    """Move to where reading can go on; False where it cannot."""
    if item.reason in {"garbage", "bad_length", "bad_header"} and not stream.fault:
        stream.find(framing.header, framing.header_bytes)
    if "truncated" in {item.reason, stream.fault}:
        return False
    return not stream.fault or stream.resync(framing.is_record_start)


def read_block(
    stream: Unpacked, size: int, is_record_start: IsRecordStart, limits: ReadLimits, origin: Origin, url: str
) -> Block | Rejected:
    """A record's content of `size` bytes, if there is that much and a record can begin after it.

    Of one that is too big for a page, the HTTP headers can be in what is kept.
    """
    kept = limits.header_bytes_max if size > limits.page_bytes_max + limits.header_bytes_max else size
    block = stream.read(kept, is_record_start)
    done = len(block) + (stream.skip(size - kept, is_record_start) if len(block) == kept < size else 0)
    if done < size:
        return incomplete(stream, size, done, origin, url)
    return Block(block, size) if kept < size or _at_record_end(stream) else _bad_length(size, origin, url)


def skip_block(
    stream: Unpacked, size: int, is_record_start: IsRecordStart, origin: Origin, url: str
) -> Rejected | None:
    """Pass over a record's content that is not wanted."""
    done = stream.skip(size, is_record_start)
    if done < size:
        return incomplete(stream, size, done, origin, url)
    return None if _at_record_end(stream) else _bad_length(size, origin, url)


def _at_record_end(stream: Unpacked) -> bool:
    """Whether the stream stands where a record can have ended: at a newline, a frame's start, or the end."""
    return stream.first() in _NEWLINES or stream.first() < 0 or stream.at_frame_start()


def _bad_length(size: int, origin: Origin, url: str) -> Rejected:
    return Rejected("bad_length", f"the record does not end after the {size} bytes that it names", origin, url)


def incomplete(stream: Unpacked, size: int, done: int, origin: Origin, url: str) -> Rejected:
    """Why there was less of a record than its length says."""
    if stream.first() >= 0:
        return _bad_length(size, origin, url)
    detail = stream.fault_detail or f"the input ends after {done} of {size} bytes"
    return Rejected(stream.fault or "truncated", detail, origin, url)
