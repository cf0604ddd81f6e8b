"""Progress: the line of a terminal at any width, the lines of a pipe, and rates."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from pathlib import Path

import pytest

from streams.engine.ingest import Cursor, Progress
from streams.terminal import progress_bars
from streams.terminal.escape import format_rate
from streams.terminal.progress_bars import DownloadMeter, IngestMeter, Meter, bar_line, plain_line, show
from tests.streams.cli.conftest import COMMAND, SAMPLE
from tests.streams.terminal.rendering import render

LONG_NAME = "2026-11 of the whole archive of the organisation"


def ingest_meter(name: str = "2026-11") -> IngestMeter:
    """Return the meter of an ingest that has read a quarter of its input in 10 s, started at 0 s."""
    meter = IngestMeter(f"sweep {name}", started=0.0)
    for seconds, bytes_read, pages in ((5.0, 200_000_000, 5_000), (10.0, 250_000_000, 1_234_567)):
        cursor = Cursor(pages=pages, new=1_000_000, copies=123_456, unchanged=100_000, near_duplicates=11_111)
        meter.update(Progress(bytes_read=bytes_read, bytes_total=1_000_000_000, cursor=cursor, pages_read=pages))
        meter.figures(seconds)
    return meter


@pytest.mark.parametrize("name", ["a", "2026-11", LONG_NAME])
def test_bar_and_remaining_time_fit_into_80_columns(name: str) -> None:
    (line,) = render(bar_line(ingest_meter(name), 10.0, 80), 80)
    assert len(line) <= 80
    assert "━" * 4 in line
    assert "25%  0:01:15 left" in line
    assert "1,234,567 pages" in line


def test_a_wide_terminal_also_shows_the_counts() -> None:
    (line,) = render(bar_line(ingest_meter(), 10.0, 160), 160)
    assert "123,457/s  new 1,000,000  copies 123,456" in line


def test_a_narrow_terminal_keeps_the_remaining_time() -> None:
    (line,) = render(bar_line(ingest_meter(), 10.0, 60), 60)
    assert line.endswith("25%  0:01:15 left")


def test_input_of_unknown_size_has_no_bar() -> None:
    meter = Meter("find", "URL", count=3, started=0.0)
    assert render(bar_line(meter, 2.0, 80), 80) == ["find  0:00:02  3 URLs  1.5/s"]


def test_pages_are_counted_before_the_first_batch_is_stored() -> None:
    meter = IngestMeter("sweep a", started=0.0)
    meter.show_compiling("compiling, only once")
    meter.count_read(1_500)
    assert plain_line(meter, 3.0) == "sweep a: 0:00:03, compiling, only once; 1,500 pages read"
    meter.show_compiling("")
    meter.count_read(2_000)
    assert plain_line(meter, 3.0) == "sweep a: 0:00:03, 2,000 pages read"


def test_pages_of_an_earlier_run_do_not_count_for_the_rate() -> None:
    meter = IngestMeter("sweep a", started=0.0)
    meter.update(Progress(bytes_read=50, bytes_total=100, cursor=Cursor(pages=1_020), pages_read=20))
    assert "1,020 pages, 10/s" in plain_line(meter, 2.0)


def test_downloads_are_counted() -> None:
    meter = DownloadMeter("download", "archive", total=6, started=0.0)
    meter.advance()
    assert "17%" in plain_line(meter, 1.0)
    assert "1 archive" in plain_line(meter, 1.0)


def test_a_pipe_gets_a_plain_line_per_interval(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert progress_bars.LINE_SECONDS == 10
    monkeypatch.setattr(progress_bars, "LINE_SECONDS", 0.1)
    with show(ingest_meter()):
        time.sleep(0.55)
    output = capsys.readouterr()
    assert output.out == ""
    assert 2 <= len(output.err.splitlines()) <= 5
    assert all(line.startswith("sweep 2026-11: 25%, ") for line in output.err.splitlines())
    assert "\x1b" not in output.err


def test_a_pipe_gets_nothing_from_a_short_run(capsys: pytest.CaptureFixture[str]) -> None:
    with show(ingest_meter()):
        pass
    with show(ingest_meter(), quiet=True):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_terminal_shows_a_number_within_two_seconds_while_the_kernel_is_compiled(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba"), "COLUMNS": "80", "TERM": "xterm"}
    command = [*COMMAND, "--data-dir", str(tmp_path / "data"), "ingest", "-", "--sweep", "one"]
    started = time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=terminal, env=environment
    ) as run:
        os.close(terminal)
        assert run.stdin is not None
        run.stdin.write((SAMPLE / "2023-03.jsonl").read_bytes())  # stays open, as a slow crawl does
        run.stdin.flush()
        shown = b""
        while b"pages read" not in shown and time.monotonic() < started + 60:
            shown += os.read(controller, 4096)
        run.kill()
    os.close(controller)
    assert b"compiling, only once; " in shown
    assert re.search(rb"; \d+ pages read", shown)


def test_low_rates_have_a_digit_after_the_point() -> None:
    assert [format_rate(pages, 2.0) for pages in (0, 5, 5_000)] == ["0/s", "2.5/s", "2,500/s"]
