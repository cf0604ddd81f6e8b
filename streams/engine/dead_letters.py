"""Write each rejected record to the dead-letter file as one line of JSON, with its reason and origin.

    {"reason", "detail", "url", "source", "member", "offset", "sweep"}

A batch's lines are written before the batch is committed, and the commit records the length of the file. After a
crash, lines past this length are removed, because their batch will be processed again. Users may delete or replace
the file. If the recorded length falls inside a line, the file was replaced, and is truncated before this line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from streams.page import Rejected

_LINE_BYTES_MAX = 1 << 20  # no line is longer, because the lengths of details and URLs are limited


class DeadLetterLine(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    detail: str
    url: str
    source: str
    member: str
    offset: int
    sweep: str


class DeadLetters:
    """The dead-letter file, to which one sweep appends lines."""

    def __init__(self, path: Path, sweep: str) -> None:
        self.path, self.sweep = path, sweep

    def length(self) -> int:
        """Return the size of the file in bytes; 0 if it does not exist."""
        return self.path.stat().st_size if self.path.exists() else 0

    def truncate(self, length: int) -> int:
        """Truncate the file to at most `length` bytes, at the end of a line. Return the new length."""
        if self.length() > length:
            with self.path.open("rb+") as file:
                tail_start = file.seek(max(0, length - _LINE_BYTES_MAX))
                file.truncate(tail_start + file.read(length - tail_start).rfind(b"\n") + 1)
        return self.length()

    def append(self, rejected: Sequence[Rejected]) -> int:
        """Append one line per record. Return the new length of the file in bytes."""
        if rejected:
            with self.path.open("ab") as file:
                file.write(msgspec.json.Encoder().encode_lines(map(self._line, rejected)))
        return self.length()

    def _line(self, item: Rejected) -> DeadLetterLine:
        return DeadLetterLine(
            reason=item.reason,
            detail=_replace_surrogates(item.detail),
            url=_replace_surrogates(item.url),
            source=item.origin.source,
            member=_replace_surrogates(item.origin.member),
            offset=item.origin.offset,
            sweep=self.sweep,
        )


def _replace_surrogates(string: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode, with question marks. Hostile records may contain them."""
    return string if string.isascii() else string.encode("utf-8", "replace").decode()
