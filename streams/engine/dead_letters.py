"""Dead letters: what was refused, with the reason and the place, one JSON object a line.

    {"reason", "detail", "url", "source", "member", "offset", "sweep"}

The file is written before the batch is committed, and the state holds its length. What a crash left behind that
length belongs to a batch that will be taken again, and is cut off. The file may be taken away at any time: where the
length falls into the middle of a line, the file is another one, and is cut before that line.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from streams.page import Rejected

_LETTER_BYTES_MAX = 1 << 20  # of one line, and more: details and URLs are bounded


class Letter(msgspec.Struct, frozen=True):
    """One line of the file."""

    reason: str
    detail: str
    url: str
    source: str
    member: str
    offset: int
    sweep: str


class DeadLetters:
    """The open file of one run."""

    def __init__(self, path: Path, sweep: str) -> None:
        self.path = path
        self.sweep = sweep

    def length(self) -> int:
        """Bytes of the file; 0 when there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    def cut(self, length: int) -> int:
        """Cut off what was written behind a committed batch, at the end of a line; returns what is left."""
        if self.length() > length:
            with self.path.open("rb+") as file:
                tail = file.seek(max(0, length - _LETTER_BYTES_MAX))
                file.truncate(tail + file.read(length - tail).rfind(b"\n") + 1)
        return self.length()

    def write(self, rejected: Sequence[Rejected]) -> int:
        """Append and return the new length in bytes."""
        if rejected:
            encoder = msgspec.json.Encoder()
            lines = (encoder.encode(self._letter(item)) + b"\n" for item in rejected)
            with self.path.open("ab") as file:
                file.write(b"".join(lines))
        return self.length()

    def _letter(self, item: Rejected) -> Letter:
        origin = item.origin
        detail, url, member = map(_utf8, (item.detail, item.url, origin.member))
        return Letter(item.reason, detail, url, origin.source, member, origin.offset, self.sweep)


def _utf8(text: str) -> str:
    """What UTF-8 cannot hold, which hostile records do hold, becomes question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
