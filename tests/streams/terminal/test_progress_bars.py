"""Progress bars and rates."""

from __future__ import annotations

import pytest

from streams.engine.ingest import Cursor, Progress
from streams.terminal.progress_bars import format_rate, ingest_bar


def test_nothing_is_drawn_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ingest_bar("first", quiet=False) as report:
        report(Progress(bytes_read=50, bytes_total=100, cursor=Cursor(pages=5), pages_read=5))
    assert capsys.readouterr() == ("", "")


def test_low_rates_have_a_digit_after_the_point() -> None:
    assert [format_rate(pages, 2.0) for pages in (0, 5, 5_000)] == ["0/s", "2.5/s", "2,500/s"]
