"""Define the errors of `streams`; `state.errors` defines the errors of the state."""

from __future__ import annotations

from state.errors import LostfoundError, StateError

__all__ = [
    "BadRecord", "BadUrl", "InputError", "LostfoundError", "NotFound", "ReadError", "SettingsError", "StateError",
    "WorkerDied",
]  # fmt: skip


class SettingsError(LostfoundError):
    """A setting is missing, unknown or out of range."""


class InputError(LostfoundError):
    """The input, such as a path, a URL or the name of a sweep, cannot be used."""


class NotFound(InputError):
    """The URL, document or sweep is not in the state."""


class BadUrl(InputError, ValueError):
    """The URL is too long, or is not an http or https URL with a valid host name."""


class ReadError(InputError):
    """An input path is missing, or cannot be opened or read."""


class BadRecord(LostfoundError):
    """An ingest stopped at a rejected record, as requested. The message gives the position and the reason."""


class WorkerDied(LostfoundError):
    """A process that sketches pages was killed. Committed batches remain stored."""
