"""Times as they are printed."""

from __future__ import annotations

import pytest

from streams.timestamps import format_iso


@pytest.mark.parametrize("time", [None, 10**30, -(10**30), 0, 1_700_000_000_123])
def test_any_number_has_a_time_in_utc_or_none(time: int | None) -> None:
    text = format_iso(time)
    assert text is None or text.endswith("Z")
