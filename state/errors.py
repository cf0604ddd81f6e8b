"""Errors that are shown to users."""

from __future__ import annotations


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
