"""Parses the times that crawlers write, into ms since the epoch, UTC."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MILLIS_MAX = 253_402_300_799_999  # the end of the year 9999
_SECONDS_MAX = 100_000_000_000  # a number below this is seconds (up to the year 5138), else milliseconds
_DATE_CHARS_MAX = 64  # of an HTTP date
_DIGITS = "20000101000000"
_FOURTEEN_DIGITS = 10**13


def millis(value: str | float | None) -> int | None:
    """Parse ISO 8601 (UTC unless it has a zone), 14 digits as in ARC, or a number of s or ms.

    Return None for anything else, and for times before 1970. A number of 14 digits is read as a date: as milliseconds
    it would be in the year 2286 or later.
    """
    if isinstance(value, str):
        value = value.strip()
        if not value.isascii() or not value.isdigit():
            return _iso(value)
        if len(value) == len(_DIGITS):
            return arc_millis(value)
        value = int(value) if len(value) < 20 else None
    if value is None or not math.isfinite(value):
        return None
    if value >= _FOURTEEN_DIGITS and len(digits := str(int(value))) == len(_DIGITS):
        return arc_millis(digits)
    time = int(value * 1000 if abs(value) < _SECONDS_MAX else value)
    return time if 0 <= time <= MILLIS_MAX else None


def arc_millis(digits: str) -> int | None:
    """Parse `20080430204825`; old crawlers leave out the end (`20080430`)."""
    if not digits.isascii() or not digits.isdigit() or len(digits) < 4:
        return None
    digits = (digits + _DIGITS[len(digits) :])[:14]
    try:
        year, month, day, hour, minute, second = (int(digits[a:b]) for a, b in _PARTS)
        when = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return _since_epoch(when)


_PARTS = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))


def http_millis(value: str | None) -> int | None:
    """Parse the Date header of HTTP: `Sat, 10 Oct 2020 08:02:16 GMT`."""
    try:
        when = parsedate_to_datetime((value or "")[:_DATE_CHARS_MAX])
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return _since_epoch(when)


def _iso(value: str) -> int | None:
    try:
        return _since_epoch(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return None


def _since_epoch(when: datetime) -> int | None:
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    try:
        time = round(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return time if 0 <= time <= MILLIS_MAX else None


def iso(time: int | None) -> str | None:
    """Format ms since the epoch as ISO 8601 with seconds, UTC; None if the year is out of range."""
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None
