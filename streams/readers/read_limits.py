"""Limits on what is read for one record, and the exception for content that cannot be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from streams.settings import Settings

MIB = 1 << 20


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Size limits in bytes, and the only folder whose WARCs may be read through pointers.

    Memory use is at most a small multiple of the largest size other than `skip_bytes_max`.
    """

    page_bytes_max: int = 10 * MIB  # size of a page after decoding
    line_bytes_max: int = 32 * MIB  # size of a JSONL line; larger than a page because of escapes and base64
    url_bytes_max: int = 2048
    header_bytes_max: int = 64 << 10  # size of a WARC or HTTP header
    skip_bytes_max: int = 4096 * MIB  # decompressed bytes skipped for one record; a defence against zip bombs
    window_bytes_max: int = 128 * MIB  # size of the zstd window, which the decoder keeps in memory
    directory_bytes_max: int = 16 * MIB  # size of a WACZ's zip directory
    warc_folder: str = ""  # if empty, pointers are rejected

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        limits = settings.limits
        return cls(
            page_bytes_max=limits.page_bytes_max,
            line_bytes_max=limits.line_bytes_max,
            url_bytes_max=limits.url_bytes_max,
            header_bytes_max=limits.header_bytes_max,
            warc_folder=settings.ingest.warc_folder,
        )


class ContentError(Exception):
    """The content cannot be used. `reason` is a key of `REJECTION_REASONS`, and `detail` is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def too_big_detail(size: int, limits: ReadLimits) -> str:
    """Return the `detail` for a page that is rejected because it has `size` bytes."""
    return f"{size} bytes, more than page_bytes_max {limits.page_bytes_max}"
