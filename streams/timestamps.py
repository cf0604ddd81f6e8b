"""Convert the timestamps written by crawlers to ms since the epoch, UTC."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

MILLIS_MAX = 253_402_300_799_999  # the end of the year 9999
_SECONDS_MAX = 100_000_000_000  # smaller numbers are seconds (up to the year 5138), larger ones milliseconds
_HTTP_DATE_CHARS_MAX = 64
_ARC_DATE_DEFAULT = "20000101000000"  # completes dates whose last digits are omitted
_ARC_FIELDS = ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))
_FOURTEEN_DIGITS_MIN = 10**13
_DECIMAL = re.compile(r"[0-9]{1,13}\.[0-9]+")


def parse_date(value: str | float | None) -> int | None:
    """Parse an ISO 8601 date (UTC if it has no zone), a 14-digit ARC date, or seconds or ms since the epoch.

    Return None for other values and for times before 1970. A number of 14 digits is always an ARC date: as
    milliseconds, it would be later than the year 2286.
    """
    if isinstance(value, str):
        value = value.strip()
        if _DECIMAL.fullmatch(value):
            return parse_date(float(value))
        if not value.isascii() or not value.isdigit():
            try:
                return _to_millis(datetime.fromisoformat(value))
            except (ValueError, OverflowError):
                return None
        if len(value) == len(_ARC_DATE_DEFAULT):
            return parse_arc_date(value)
        value = int(value) if len(value) < 20 else None  # longer numbers are out of range
    if value is None or not math.isfinite(value):
        return None
    if value >= _FOURTEEN_DIGITS_MIN and len(digits := str(int(value))) == len(_ARC_DATE_DEFAULT):
        return parse_arc_date(digits)
    time = int(value * 1000 if abs(value) < _SECONDS_MAX else value)
    return time if 0 <= time <= MILLIS_MAX else None


def parse_arc_date(digits: str) -> int | None:
    """Parse an ARC date, such as `20080430204825`, or `20080430` from old crawlers that omit the last digits."""
    if not digits.isascii() or not digits.isdigit() or len(digits) < 4:
        return None
    digits = (digits + _ARC_DATE_DEFAULT[len(digits) :])[:14]
    try:
        year, month, day, hour, minute, second = (int(digits[start:stop]) for start, stop in _ARC_FIELDS)
        return _to_millis(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
    except ValueError:
        return None


def parse_http_date(value: str | None) -> int | None:
    """Parse an HTTP Date header, such as `Sat, 10 Oct 2020 08:02:16 GMT`."""
    from email.utils import parsedate_to_datetime  # imported here because queries need no HTTP dates

    try:
        return _to_millis(parsedate_to_datetime((value or "")[:_HTTP_DATE_CHARS_MAX]))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _to_millis(date: datetime) -> int | None:
    time = round((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000)
    return time if 0 <= time <= MILLIS_MAX else None


def format_iso(time: int | None) -> str | None:
    """Format ms since the epoch as ISO 8601, UTC, to the second. Return None for None and for years out of range."""
    if time is None:
        return None
    try:
        return datetime.fromtimestamp(time // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return None
