"""What moves between the stages: plain frozen values."""

from __future__ import annotations

import msgspec

from streams.urls import url_key

SUCCESS_STATUSES = range(200, 300)
NOT_MODIFIED = 304


class Origin(msgspec.Struct, frozen=True):
    """The position of a record in the input, for dead letters and for resuming.

    `offset` is a byte offset for WARC and ARC (of the record, in the compressed file) and a line number, from 0,
    for JSONL; `member` names the file inside a WACZ.
    """

    source: str
    offset: int
    member: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One fetch supplied by a crawler, decoded from its transfer and content encoding but not yet parsed.

    Exactly one of `body` (bytes as served) and `text` (already extracted) is set, unless the record is a redirect,
    an error or a revisit, or its content is refused: then both are None.

    Raises BadUrl if `key` is not given and `url` has none.
    """

    url: str
    key: bytes = b""  # the key of `url`; a reader that has parsed the URL passes it, else it is computed here
    time: int  # ms since the epoch, UTC
    status: int = 200
    body: bytes | None = None
    text: str | None = None
    mime: str = ""  # lower case, without parameters; empty when unknown
    charset: str = ""  # as declared by the server; empty when unknown
    redirect: str | None = None  # absolute target of a 3xx
    revisit_of: str | None = None  # a revisit record: the URL whose capture it repeats
    revisit_time: int | None = None  # ms; None where the record does not say
    title: str = ""
    refused: tuple[str, str] | None = None  # why its content is not taken: reason and detail, as of a Rejected
    origin: Origin = Origin("", 0)

    def __post_init__(self) -> None:
        if not self.key:
            msgspec.structs.force_setattr(self, "key", url_key(self.url))


def with_time(page: Page, time: int) -> Page:
    """Return the page with this time, in ms, if its record has none."""
    return page if page.time else msgspec.structs.replace(page, time=time)


# Why a record or page is a dead letter. A page whose content alone is unusable is stored too, without text.
REASONS: dict[str, str] = {
    "bad_base64": "the `body` of a line is not base64; the URL is stored without text",
    "bad_encoding": "the body cannot be decoded as its Content-Encoding says; the URL is stored without text",
    "bad_field": "a field has the wrong type or a value out of range",
    "bad_header": "the header of a record cannot be read: it is too long, or has no valid length",
    "bad_json": "a line is not a JSON object",
    "bad_length": "a record does not end where its length says; reading resumes at the next record",
    "bad_pointer": "a pointer does not lead to a WARC record with a page of this URL, or leads out of `warc_folder`",
    "bad_time": "the fetch time cannot be read; if missing, it is the sweep's opening (on Kafka the message's time)",
    "bad_url": "not an http or https URL with a host, or longer than `url_bytes_max`",
    "bad_utf8": "a line is not UTF-8",
    "bad_zip": "an unreadable zip, too big a directory, or a WARC in it encrypted or neither stored nor deflated",
    "corrupt": "compressed data is damaged; reading resumes at the next gzip member or zstd frame",
    "garbage": "bytes between records that are not a record",
    "no_archive": "a WACZ without a WARC in it",
    "no_content": "a line with neither `html`, `text`, `body` nor a redirect",
    "no_text": "the page has no words; the URL is stored without text",
    "no_url": "a record or line without a URL",
    "not_text": "the page is neither HTML nor text, or is a binary file; the URL is stored without text",
    "parse_failed": "the HTML parser failed; the URL is stored without text",
    "revisit_unresolved": "the capture that a `revisit` repeats is not in the state; the URL is stored without text",
    "segmented": "a part of a page that is split over several WARC records",
    "too_big": "longer than `page_bytes_max` (the URL is stored without text), `line_bytes_max` or `skip_bytes_max`",
    "truncated": "the input ends within a record, which is read again once the file has grown",
    "unknown_format": "not one of the formats that can be read, or a zip inside a WACZ",
}


class Rejected(msgspec.Struct, frozen=True):
    """A record or page that goes to the dead letters; `reason` is a short stable word, `detail` is for people."""

    reason: str
    detail: str
    origin: Origin
    url: str = ""
