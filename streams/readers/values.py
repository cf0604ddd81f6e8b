"""What reading is asked and answers: limits, positions, and why a record was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

from streams.values import Page, Rejected

if TYPE_CHECKING:
    from streams.settings import Settings

__all__ = ["REASONS", "Item", "Position", "ReadLimits"]

MIB = 1 << 20

# Why something is a dead letter: refused while it was read, or, of a page that was read, for want of a text.
REASONS: dict[str, str] = {
    "bad_base64": "the `body` of a line is not base64; the URL is kept without a text",
    "bad_encoding": "the body does not decode by its Content-Encoding; the URL is kept without a text",
    "bad_field": "a field has the wrong type or a value out of range",
    "bad_header": "a record's header cannot be read: too long, or without a usable length",
    "bad_json": "a line is not a JSON object",
    "bad_length": "a record does not end where its length says; it is left out up to the next record",
    "bad_pointer": "a pointer to a WARC record that is none, leads out of `warc_folder`, or to no page of this URL",
    "bad_time": "the time of the fetch cannot be read (one that is not given at all is 0; on Kafka, the message's)",
    "bad_url": "not an http or https URL with a host, or longer than `url_bytes_max`",
    "bad_utf8": "a line is not UTF-8",
    "bad_zip": "not a readable zip, too big a directory, or a WARC in it encrypted or neither stored nor deflated",
    "corrupt": "compressed data does not decompress; reading goes on at the next gzip member or zstd frame",
    "garbage": "bytes between records that are none",
    "no_archive": "a WACZ without a WARC in it",
    "no_content": "a line with neither `html`, `text`, `body` nor a redirect",
    "no_text": "a page that holds no word; the URL is kept without a text",
    "no_url": "a record or line without a URL",
    "not_text": "a page of another type than HTML or text, or a binary file; the URL is kept without a text",
    "parse_failed": "the HTML parser gave up; the URL is kept without a text",
    "revisit_unresolved": "what a `revisit` repeats is not in the state; the URL is kept without a text",
    "segmented": "a part of a page cut into several WARC records",
    "too_big": "longer than `page_bytes_max` (the URL is kept without a text), `line_bytes_max` or `skip_bytes_max`",
    "truncated": "the input ends within a record, which is read again once the file has grown",
    "unknown_format": "none of the formats that are read, or a zip within a WACZ",
}


class ReadLimits(msgspec.Struct, frozen=True):
    """What one record may cost. All are bytes; memory for reading is a small multiple of the largest."""

    page_bytes_max: int = 10 * MIB  # of a page, decoded
    line_bytes_max: int = 32 * MIB  # of a JSONL line; escapes and base64 make a line longer than its page
    url_bytes_max: int = 2048
    header_bytes_max: int = 64 << 10  # of a WARC, ARC or HTTP header
    skip_bytes_max: int = 4096 * MIB  # unpacked bytes passed over for one refused record: stops zip bombs
    window_bytes_max: int = 128 * MIB  # zstd's window, which its decoder must hold in memory
    directory_bytes_max: int = 16 * MIB  # of a WACZ's zip directory
    warc_folder: str = ""  # where records that are pointed to are looked up; empty: nowhere

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """What the settings say."""
        limits = settings.limits
        return cls(
            page_bytes_max=limits.page_bytes_max,
            line_bytes_max=limits.line_bytes_max,
            url_bytes_max=limits.url_bytes_max,
            warc_folder=settings.ingest.warc_folder,
        )


class Position(msgspec.Struct, frozen=True):
    """The place right after an item; reading from there gives the items that follow it, exactly.

    `offset` is a byte offset in the file (or in `member`, a file inside a WACZ): of the gzip member or zstd frame in
    compressed ones, where `inner` counts the unpacked bytes since. `line` is the number of the next line, JSONL only.
    Where the input ended within an item, or could not be read on, the place is the beginning of that item, which was
    `cut`: it is read again, and given again if it has become another since.
    """

    source: str
    member: str = ""
    offset: int = 0
    inner: int = 0
    line: int = 0
    cut: bool = False


Item = tuple[Position, Page | Rejected]
