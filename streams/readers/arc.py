r"""ARC 1.0 and 1.1 (Internet Archive, 1996 to 2009), read tolerantly.

A record is a line, the content, and a newline:

    http://a.org/x 192.0.2.7 20080509190241 text/html 6508\n
    HTTP/1.1 200 OK ...

Version 2 has more fields between the type and the length, which is always last. Strict readers refuse archives whose
first record has another length than it says, URLs with spaces, short dates, or a bare body; these occur.
"""

from __future__ import annotations

import re

import msgspec

from streams import timestamps
from streams.errors import BadUrl
from streams.page import Origin, Page, Rejected
from streams.readers import http_payload, records
from streams.readers.read_limits import ReadLimits
from streams.readers.unpack import Unpacked
from streams.urls import url_key

_FILE = "filedesc:"
_LINE_BYTES_MAX = 16 << 10
_SCHEME = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]{0,15}:")
_IP = re.compile(rb"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F.:]{2,45}|-")
# Bounded repeats: this is searched for in rubbish, which must not make it slow.
_HEADER = re.compile(
    rb"^(?:https?|ftp|dns|filedesc):[^\r\n]{0,4096}? [0-9a-fA-F.:-]{1,45} \d{8,17} [^\r\n]{0,400}?\d{1,18}[ ]?\r?\n",
    re.MULTILINE,
)


class RecordLine(msgspec.Struct, frozen=True):
    """A record's line."""

    url: str
    date: str
    mime: str
    size: int


def parse_line(line: bytes) -> RecordLine | None:
    """The fields of a record's line; None where it is none.

    Between the URL, which may hold spaces, and the length stand an IP address and a date, which tell where it ends.
    """
    words = line.split()
    if not line.endswith(b"\n") or len(words) < 4 or not _SCHEME.match(words[0]) or not _number(words[-1], 1, 18):
        return None
    for i in range(2, len(words) - 1):
        if _number(words[i], 8, 17) and _IP.fullmatch(words[i - 1]):
            url, mime = (http_payload.decode_header(b" ".join(part)) for part in (words[: i - 1], words[i + 1 : -1]))
            return RecordLine(url, words[i].decode("ascii"), mime, int(words[-1]))
    return None


def _number(word: bytes, digits_min: int, digits_max: int) -> bool:
    return digits_min <= len(word) <= digits_max and word.isdigit()


def read_record(stream: Unpacked, limits: ReadLimits, origin: Origin) -> Page | Rejected | None:
    """One record, from its line to the end of its content."""
    line = stream.readline(_LINE_BYTES_MAX)
    found = parse_line(line)
    if found is None:
        if stream.first() < 0 and b"\n" not in line:
            return records.incomplete(stream, _LINE_BYTES_MAX, len(line), origin, "")
        return Rejected("garbage", f"no ARC record, but {line[:40]!r}", origin)
    url, size = found.url, found.size
    if not url.lower().startswith(("http:", "https:")):
        refused = records.skip_block(stream, size, is_record_start, origin, url)
        if refused is None or refused.reason != "bad_length" or not url.startswith(_FILE):
            return refused
        stream.find(_HEADER, _LINE_BYTES_MAX)  # many writers got the length of the file's own record wrong
        return None
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        shown = url[: limits.url_bytes_max]
        return records.skip_block(stream, size, is_record_start, origin, shown) or Rejected(
            "bad_url", str(error), origin, shown
        )
    block = records.read_block(stream, size, is_record_start, limits, origin, url)
    if isinstance(block, Rejected):
        return block
    time = timestamps.arc_millis(found.date)
    if time is None:
        return Rejected("bad_time", f"archive date is {found.date}", origin, url)
    response = http_payload.parse_response(block, limits)
    if response is not None:
        return http_payload.page_from_response(response, url, key, time, limits, origin)
    return http_payload.page_without_http(url, key, time, block, found.mime, limits, origin)


def is_record_start(head: bytes) -> bool:
    """Whether these bytes begin an ARC file or record."""
    return parse_line(head[: head.find(b"\n") + 1]) is not None


FRAMING = records.Framing(is_record_start, _HEADER, _LINE_BYTES_MAX, read_record)
