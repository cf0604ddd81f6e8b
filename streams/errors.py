"""Define the errors of `streams`; `state.errors` defines the errors of the state."""

from __future__ import annotations

from state.errors import LostfoundError, StateError

__all__ = [
    "BadRecord", "BadUrl", "InputError", "LostfoundError", "NoPages", "NotFound", "ReadError", "SettingsError",
    "StateError", "WorkerDied",
]  # fmt: skip


class SettingsError(LostfoundError):
    """A setting is missing, unknown or out of range."""


class InputError(LostfoundError):
    """A value given by the user, such as a path, a URL or a sweep name, cannot be used."""


class NotFound(InputError):
    """The URL, document or sweep is not in the state."""


class BadUrl(InputError, ValueError):
    """The URL is too long, or is not an http or https URL with a valid host name."""


class ReadError(InputError):
    """An input path is missing, or cannot be opened or read."""


class NoPages(InputError):
    """An input contains no page, so an ingest or a publication changed nothing."""


class BadRecord(LostfoundError):
    """An ingest stopped, as requested, at its first rejected record. The message gives the position and reason."""


class WorkerDied(LostfoundError):
    """A worker process that sketches pages was killed. Committed batches remain stored."""
