"""Write rejected records to a file of dead letters: one JSON object per line, with reason and origin.

    {"reason", "detail", "url", "source", "member", "offset", "sweep"}

The file is written before its batch is committed, and the state contains its length. After a crash, the bytes past
that length belong to a batch that will be processed again, so they are truncated. The file may be deleted or replaced
at any time. If the length is in the middle of a line, the file was replaced and is truncated before that line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from streams.page import Rejected

_LINE_BYTES_MAX = 1 << 20  # generous: details and URLs are bounded


class DeadLetterLine(msgspec.Struct, frozen=True, kw_only=True):
    reason: str
    detail: str
    url: str
    source: str
    member: str
    offset: int
    sweep: str


class DeadLetters:
    """The file of dead letters, for one sweep."""

    def __init__(self, path: Path, sweep: str) -> None:
        self.path, self.sweep = path, sweep

    def length(self) -> int:
        """Return the size of the file in bytes; 0 if it does not exist."""
        return self.path.stat().st_size if self.path.exists() else 0

    def truncate(self, length: int) -> int:
        """Truncate the file to at most `length` bytes, at the end of a line; return the new length."""
        if self.length() > length:
            with self.path.open("rb+") as file:
                tail = file.seek(max(0, length - _LINE_BYTES_MAX))
                file.truncate(tail + file.read(length - tail).rfind(b"\n") + 1)
        return self.length()

    def append(self, rejected: Sequence[Rejected]) -> int:
        """Append one line per record; return the new length in bytes."""
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
    """Replace lone surrogates by question marks: hostile records contain them, and UTF-8 cannot encode them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
