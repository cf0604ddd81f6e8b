"""Define the values passed between stages: pages, rejected records, and the reasons for rejection."""

from __future__ import annotations

import msgspec

from state.model import LinkKind
from streams.urls import url_key

SUCCESS_STATUSES = range(200, 300)
NOT_MODIFIED = 304


class Origin(msgspec.Struct, frozen=True):
    """The position of a record in the input, as reported in dead letters.

    `source` is the path of a file or the name of a Kafka topic. `offset` is the byte offset in the (compressed) WARC
    or ARC file, the line number in a JSONL file (from 0), or the Kafka offset. `member` is the file inside a WACZ.
    """

    source: str
    offset: int
    member: str = ""


class SuppliedLink(msgspec.Struct, frozen=True):
    """A link that the crawler extracted. `target` may be relative to the page."""

    target: str
    anchor: str = ""
    kind: LinkKind = LinkKind.ANCHOR
    nofollow: bool = False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one fetch. Transfer and content encodings are removed, but the content is not yet parsed.

    The content is in `body` (bytes as served) or `text` (extracted by the crawler). Redirects, errors, revisits,
    pages known only by their metadata, and pages with a `content_error` have neither. The constructor raises
    BadUrl if no `key` is given and none can be derived from `url`.
    """

    url: str
    key: bytes = b""  # the key of `url`, computed if not given
    time: int  # ms since the epoch, UTC; 0 if unknown
    status: int = 200
    body: bytes | None = None
    text: str | None = None
    mime: str = ""  # lower case, without parameters; empty if unknown
    charset: str = ""  # as declared by the server; empty if unknown
    redirect: str | None = None  # the absolute target URL of a 3xx response
    original_url: str | None = None  # only for a revisit: the URL of the capture that it repeats
    original_time: int | None = None  # the time of that capture (ms), if known
    title: str = ""
    links: list[SuppliedLink] | None = None  # the links that the crawler extracted; not used if the page has a body
    content_error: tuple[str, str] | None = None  # why the content cannot be used: reason and detail, as in Rejected
    origin: Origin = Origin("", 0)

    def __post_init__(self) -> None:
        if not self.key:
            msgspec.structs.force_setattr(self, "key", url_key(self.url))


def with_default_time(page: Page, time: int) -> Page:
    """Return the page if its time is known, otherwise a copy with the time `time` (ms)."""
    return page if page.time else msgspec.structs.replace(page, time=time)


# Why a record or page becomes a dead letter. If only the content is unusable, the page is stored without text.
REJECTION_REASONS: dict[str, str] = {
    "bad_base64": "`body_base64` is not base64, or `body` is damaged base64; the URL is stored without text",
    "bad_csv": "a row of a CSV is malformed, or has more fields than the header",
    "bad_encoding": "the body cannot be decoded with its Content-Encoding; the URL is stored without text",
    "bad_field": "a field has the wrong type or a value out of range",
    "bad_header": "the header of a record is too long, or does not contain a valid length",
    "bad_json": "a line, or the metadata of a page, is not a JSON object",
    "bad_length": "the length of a record is wrong; reading resumes at the next record",
    "bad_pointer": "a pointer does not lead to a WARC record of the line's URL in a file under `warc_folder`",
    "bad_time": "the fetch time is invalid; a missing time is replaced by the time at which the sweep was opened "
    "(on Kafka: the message's time)",
    "bad_url": "the URL is not an http or https URL with a host, or is longer than `url_bytes_max`",
    "bad_utf8": "a line is not UTF-8",
    "bad_zip": "a zip is damaged, its directory is too big, or a WARC in it is encrypted or uses an unsupported "
    "compression method",
    "corrupt": "compressed data is damaged; reading resumes at the next gzip member or zstd frame",
    "garbage": "the bytes at this position are not the start of a record",
    "no_archive": "a WACZ contains no WARC",
    "no_content": "a line with status 200 has no `body`, `html`, `text` or redirect",
    "no_text": "the page has no words; the URL is stored without text",
    "no_url": "a record or line has no URL",
    "not_text": "the media type is HTML or text, but the body is binary; the URL is stored without text",
    "parse_failed": "the HTML parser failed; the URL is stored without text",
    "revisit_unresolved": "the capture that a `revisit` repeats is not in the state; the URL is stored without text",
    "segmented": "the page is divided into several WARC records, which is not supported",
    "too_big": "a page exceeds `page_bytes_max` (the URL is stored without text), a line exceeds `line_bytes_max`, "
    "or more than `skip_bytes_max` decompressed bytes contain no record",
    "truncated": "the input ends within a record; the record is read again after the file has grown",
    "unknown_format": "the format of the file is not supported, or the file is a zip inside a WACZ",
}


class Rejected(msgspec.Struct, frozen=True):
    """A record or page that becomes a dead letter: its reason (a key of `REJECTION_REASONS`) and a detail."""

    reason: str
    detail: str
    origin: Origin
    url: str = ""


class NotAPage(msgspec.Struct, frozen=True):
    """A response that is not a page, such as an image or a script. It is stored without text, and counted."""

    mime: str
    origin: Origin
