"""Write each rejected record to the dead-letter file as one line of JSON, with its reason and origin.

    {"reason", "detail", "url", "source", "member", "offset", "sweep"}

A batch's lines are written before the batch is committed; the state records the length of the file. After a crash,
lines past that length are removed, as their batch will be processed again. The file may be deleted or replaced. If
the recorded length falls inside a line, the file must have been replaced; it is then truncated before that line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from streams.page import Rejected

_LINE_BYTES_MAX = 1 << 20  # generous, because details and URLs are limited


class DeadLetterLine(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    detail: str
    url: str
    source: str
    member: str
    offset: int
    sweep: str


class DeadLetters:
    """The dead-letter file; lines are written on behalf of one sweep."""

    def __init__(self, path: Path, sweep: str) -> None:
        self.path, self.sweep = path, sweep

    def length(self) -> int:
        """Return the size of the file in bytes; 0 if it does not exist."""
        return self.path.stat().st_size if self.path.exists() else 0

    def truncate(self, length: int) -> int:
        """Truncate the file to at most `length` bytes, at the end of a line. Return the new length."""
        if self.length() > length:
            with self.path.open("rb+") as file:
                tail = file.seek(max(0, length - _LINE_BYTES_MAX))
                file.truncate(tail + file.read(length - tail).rfind(b"\n") + 1)
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
            detail=_encodable(item.detail),
            url=_encodable(item.url),
            source=item.origin.source,
            member=_encodable(item.origin.member),
            offset=item.origin.offset,
            sweep=self.sweep,
        )


def _encodable(text: str) -> str:
    """Replace lone surrogates by question marks: UTF-8 cannot encode them, and hostile records contain some."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
