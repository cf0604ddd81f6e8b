"""What can go wrong with the state. Each error says what happened, where, and what to do next."""

from __future__ import annotations


class LostfoundError(Exception):
    """An error for people: a sentence that says what happened, and a hint that says what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class StateError(LostfoundError):
    """The state cannot be used as asked."""


class StateMissing(StateError):
    """There is no state at this place."""


class StateLocked(StateError):
    """Another process has the state open for writing."""


class StateRefused(StateError):
    """The state was made by another scheme or a newer version."""


class StateCorrupt(StateError, ValueError):
    """A value in the state does not decode."""

    def __init__(self, message: str, hint: str = "`lostfound state check` lists all that is damaged") -> None:
        super().__init__(message, hint)
