r"""Read ARC 1.0, 1.1 and version 2 (Internet Archive, 1996 to 2009), tolerating the errors of old crawlers.

A record consists of a header line, the content, and a newline:

    http://a.org/x 192.0.2.7 20080509190241 text/html 6508\n
    HTTP/1.1 200 OK ...

In version 2, more fields follow the content type. In every version, the last field is the length of the content.
Tolerated errors include a wrong length of the first record, URLs with spaces, short dates, and missing HTTP headers.
"""

from __future__ import annotations

import re

from streams import timestamps
from streams.errors import BadUrl
from streams.page import Origin, Page, Rejected
from streams.readers import http_payload, records
from streams.readers.byte_stream import ByteStream
from streams.readers.read_limits import ReadLimits
from streams.urls import url_key

_HEADER_BYTES_MAX = 16 << 10
_SCHEME = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]{0,15}:")
_IP = re.compile(rb"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F.:]{2,45}|-")
# Every repetition is bounded, so that even in garbage the search for a header is fast.
_HEADER_PATTERN = re.compile(
    rb"^(?:https?|ftp|dns|filedesc):[^\r\n]{0,4096}? [0-9a-fA-F.:-]{1,45} \d{8,17} [^\r\n]{0,400}?\d{1,18}[ ]?\r?\n",
    re.MULTILINE,
)


def parse_header(line: bytes) -> tuple[str, str, str, int] | None:
    """Parse a header line into (URL, date, content type, content length). Return None if it is not a header line.

    The URL may contain spaces. It ends before the first IP address that is followed by a date.
    """
    words = line.split()
    if not line.endswith(b"\n") or len(words) < 4 or not _SCHEME.match(words[0]) or not _is_number(words[-1], 1, 18):
        return None
    for i, word in enumerate(words[2:-1], 2):
        if _is_number(word, 8, 17) and _IP.fullmatch(words[i - 1]):
            url = http_payload.decode_header_value(b" ".join(words[: i - 1]))
            content_type = http_payload.decode_header_value(b" ".join(words[i + 1 : -1]))
            return url, word.decode("ascii"), content_type, int(words[-1])
    return None


def _is_number(word: bytes, digits_min: int, digits_max: int) -> bool:
    return digits_min <= len(word) <= digits_max and word.isdigit()


def read_record(stream: ByteStream, limits: ReadLimits, origin: Origin) -> Page | Rejected | None:
    """Read one record, from its header line to the end of its content. Return None if the record has no page."""
    line = stream.read_line(_HEADER_BYTES_MAX)
    header = parse_header(line)
    if header is None:
        if stream.peek() < 0 and b"\n" not in line:
            return records.reject_cut_off(stream, "the input ends within the header of a record", origin)
        return Rejected("garbage", f"not an ARC record: {line[:40]!r}", origin)
    url, date, content_type, size = header
    if not url.lower().startswith(("http:", "https:")):
        rejected = records.skip_content(stream, size, is_record_start, origin, url)
        if rejected is None or rejected.reason != "bad_length" or not url.startswith("filedesc:"):
            return rejected
        # Many crawlers wrote a wrong length in the filedesc record.
        stream.skip_to(_HEADER_PATTERN, _HEADER_BYTES_MAX)
        return None
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        url = url[: limits.url_bytes_max]
        rejected = records.skip_content(stream, size, is_record_start, origin, url)
        return rejected or Rejected("bad_url", str(error), origin, url)
    data = records.read_content(stream, size, is_record_start, limits, origin, url)
    if isinstance(data, Rejected):
        return data
    time = timestamps.parse_arc_date(date)
    if time is None:
        return Rejected("bad_time", f"invalid date in the ARC header: {date}", origin, url)
    response = http_payload.parse_response(data, size, limits)
    if response is not None:
        return http_payload.page_from_response(response, url, key, time, limits, origin)
    return http_payload.page_without_http(url, key, time, data, size, content_type, limits, origin)


def is_record_start(head: bytes) -> bool:
    """Return whether these bytes begin with the header line of an ARC record."""
    return parse_header(head[: head.find(b"\n") + 1]) is not None


RECORD_FORMAT = records.RecordFormat(is_record_start, _HEADER_PATTERN, _HEADER_BYTES_MAX, read_record)
