r"""ARC 1.0 and 1.1 (Internet Archive, 1996 to 2009), read tolerantly.

A record is a line, the content, and a newline:

    http://a.org/x 192.0.2.7 20080509190241 text/html 6508\n
    HTTP/1.1 200 OK ...

Version 2 has more fields between the type and the length, which is always last. Strict readers refuse archives whose
first record has another length than it says, URLs with spaces, short dates, or a bare body; these occur.
"""

from __future__ import annotations

import re

from streams.errors import BadUrl
from streams.readers import payload, records, times
from streams.readers.unpack import Unpacked
from streams.readers.values import ReadLimits
from streams.urls import url_key
from streams.values import Origin, Page, Rejected

_FILE = "filedesc:"
_LINE_BYTES_MAX = 16 << 10
_IP = rb"(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*|-)"
_REST = rb"[^\r\n]*?)[ \t]+" + _IP + rb"[ \t]+(\d{8,17})[ \t]+(?:([^\r\n]*)[ \t])?(\d{1,18})[ \t]*\r?\n"
_LINE = re.compile(rb"([a-zA-Z][a-zA-Z0-9+.-]*:" + _REST)
_HEADER = re.compile(rb"^((?:https?|ftp|dns|filedesc):" + _REST, re.MULTILINE)


def record(stream: Unpacked, limits: ReadLimits, origin: Origin) -> Page | Rejected | None:
    """One record, from its line to the end of its content."""
    line = stream.readline(_LINE_BYTES_MAX)
    found = _LINE.fullmatch(line)
    if found is None:
        if stream.first() < 0 and b"\n" not in line:
            return records.short(stream, _LINE_BYTES_MAX, len(line), origin, "")
        return Rejected("garbage", f"no ARC record, but {line[:40]!r}", origin)
    url = payload.text_of(found[1]).strip()
    size = int(found[4])
    if not url.lower().startswith(("http:", "https:")):
        refused = records.passed(stream, size, begins, origin, url)
        if refused is None or refused.reason != "bad_length" or not url.startswith(_FILE):
            return refused
        stream.find(_HEADER, _LINE_BYTES_MAX)  # many writers got the length of the file's own record wrong
        return None
    try:
        url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        shown = url[: limits.url_bytes_max]
        return records.passed(stream, size, begins, origin, shown) or Rejected("bad_url", str(error), origin, shown)
    block = records.block_of(stream, size, begins, limits, origin, url)
    if isinstance(block, Rejected):
        return block
    time = times.arc_millis(found[2].decode("ascii"))
    if time is None:
        return Rejected("bad_time", f"archive date is {found[2].decode('ascii')}", origin, url)
    try:
        return _page(url, time, found[3] or b"", block, limits, origin)
    except payload.Refused as error:
        return Rejected(error.reason, error.detail, origin, url)


def begins(head: bytes) -> bool:
    """Whether these bytes begin an ARC file or record."""
    return _LINE.match(head) is not None


FRAMING = records.Framing(begins, _HEADER, _LINE_BYTES_MAX, record)


def _page(url: str, time: int, declared: bytes, block: bytes, limits: ReadLimits, origin: Origin) -> Page:
    response = payload.parse(block, limits)
    if response is not None:
        return payload.page_of(response, url, time, "", limits, origin)
    if len(block) > limits.page_bytes_max:
        raise payload.Refused("too_big", f"{len(block)} bytes, page_bytes_max {limits.page_bytes_max}")
    mime, charset = payload.media_type(payload.text_of(declared))
    return Page(url, time, body=block, mime=mime, charset=charset, origin=origin)
