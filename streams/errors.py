"""Errors of `streams`; errors of the state are in `state.errors`."""

from __future__ import annotations

from state.errors import LostfoundError, StateError

__all__ = [
    "BadRecord", "BadUrl", "InputError", "LostfoundError", "NotFound", "ReadError", "SettingsError", "StateError",
    "WorkerDied",
]  # fmt: skip


class SettingsError(LostfoundError):
    """A setting is missing, unknown or out of range."""


class InputError(LostfoundError):
    """The input cannot be used: a path, a URL, the name of a sweep."""


class NotFound(InputError):
    """The URL, document or sweep is not in the state."""


class BadUrl(InputError, ValueError):
    """Not an http or https URL with a host that can be looked up, or too long."""


class ReadError(InputError):
    """An input path is missing, or cannot be opened or read."""


class BadRecord(LostfoundError):
    """A record was rejected and the ingest stops at bad records; gives the position and the reason."""


class WorkerDied(LostfoundError):
    """A process that sketches pages was killed; committed batches remain."""
