"""Write each rejected record to the dead-letter file as one line of JSON, with its reason and origin.

    {"reason", "detail", "url", "source", "member", "offset", "sweep"}

A batch's lines are on disk before the batch is committed, and the commit records the length of the file. After a
crash, lines past this length are removed, because their batch will be processed again. Users may delete or replace
the file. If the recorded length falls inside a line, the file was replaced, and is truncated before this line. A last
line that was cut when the computer crashed is removed, so that the next dead letter starts a new line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from state import disk_sync, line_file
from state.errors import DiskFull, StateError, is_disk_full
from streams.page import Rejected


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
        """Truncate the file to complete lines of at most `length` bytes in total. Return the new length."""
        with self._translate_errors():
            if self.length():
                line_file.truncate(self.path, length)
                self._sync()
            return self.length()

    def append(self, rejected: Sequence[Rejected]) -> int:
        """Append one line per record, and return the new length of the file in bytes once the lines are on disk.

        Raise DiskFull on a full disk.
        """
        with self._translate_errors():
            if rejected:
                with self.path.open("ab") as file:
                    file.write(msgspec.json.Encoder().encode_lines(map(self._line, rejected)))
                self._sync()
            return self.length()

    def _sync(self) -> None:
        """Sync the file and its folder. Otherwise, after a power cut, a commit could count lines that are lost."""
        disk_sync.sync(self.path)
        disk_sync.sync(self.path.parent)

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if is_disk_full(error):
                raise DiskFull(self.path.parent) from error
            hint = "check the permissions of the file, and that its disk works"
            raise StateError(f"cannot write {self.path}: {error.strerror}", hint) from error

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
