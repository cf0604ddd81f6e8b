"""Errors of everything that moves; those of the state are in `state.errors`."""

from __future__ import annotations

from state.errors import LostfoundError, StateError

__all__ = ["InputError", "LostfoundError", "SettingsError", "StateError"]


class SettingsError(LostfoundError):
    """A setting is missing, unknown or out of its limits."""


class InputError(LostfoundError):
    """What was handed in cannot be used: a path, a URL, a sweep's name."""
