"""The exception that a reader raises for a record, body or file that it cannot use."""

from __future__ import annotations

from streams.readers.read_limits import ReadLimits


class Refused(Exception):
    """Raised for content that cannot be used; `reason` is a key of REASONS, `detail` is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def page_too_big(size: int, limits: ReadLimits) -> Refused:
    """The refusal of a page of `size` bytes."""
    return Refused("too_big", f"{size} bytes, more than page_bytes_max {limits.page_bytes_max}")
