"""Errors of everything that moves; those of the state are in `state.errors`."""

from __future__ import annotations

from state.errors import LostfoundError, StateError

__all__ = [
    "BadRecord",
    "BadUrl",
    "InputError",
    "LostfoundError",
    "NotFound",
    "ReadError",
    "SettingsError",
    "StateError",
    "WorkerDied",
]


class SettingsError(LostfoundError):
    """A setting is missing, unknown or out of its limits."""


class InputError(LostfoundError):
    """What was handed in cannot be used: a path, a URL, a sweep's name."""


class NotFound(InputError):
    """What is asked for is not in the state."""


class BadUrl(InputError, ValueError):
    """Not an http or https URL with a host that can be looked up, or too long."""


class ReadError(InputError):
    """An input path is missing, or cannot be opened or read."""


class BadRecord(LostfoundError):
    """A record was refused, and bad records were to stop the ingest; names the place and the reason."""


class WorkerDied(LostfoundError):
    """A process that sketches pages was killed; what was committed stays."""
