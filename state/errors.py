"""Errors that are shown to users."""

from __future__ import annotations

import errno
from pathlib import Path


class LostfoundError(Exception):
    """An error for users: what happened and where, with a hint that says what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class StateError(LostfoundError):
    """The state cannot be used as requested."""


class StateMissing(StateError):
    """The folder has no state."""


class StateLocked(StateError):
    """Another process has the state open for writing."""


class StateIncompatible(StateError):
    """The state has a different scheme, partition number or partition count, or a newer format."""


class StateCorrupt(StateError, ValueError):
    """A value in the state cannot be decoded, or files are damaged."""

    def __init__(self, message: str, hint: str = "`lostfound state check` lists all damage") -> None:
        super().__init__(message, hint)


class DiskFull(StateError):
    """The disk of a folder is full, or the disk quota of the user is used up."""

    def __init__(self, folder: Path) -> None:
        hint = "free some space, then run the same command again; committed data is safe"
        super().__init__(f"the disk of {folder} is full", hint)


def is_disk_full(error: Exception) -> bool:
    """Return whether an error of the operating system or of RocksDB was caused by a full disk."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in {errno.ENOSPC, errno.EDQUOT}
    return any(cause in str(error) for cause in ("No space left on device", "Disk quota exceeded"))
