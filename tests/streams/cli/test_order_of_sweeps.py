"""Sweeps are in the order of ingest: `ingest` warns of a sweep that is older than the one before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.samples import Line, jsonl, page
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

DAY = 86_400_000
JANUARY = 1_767_225_600_000  # 2026-01-01
FEBRUARY = JANUARY + 31 * DAY
TEXT = "some words on a page"


def ingest(
    lostfound: Lostfound, folder: Path, sweep: str, pages: list[Line], *options: str
) -> tuple[str | None, str]:
    """Ingest pages and return the sweep that is reported as newer, and the warning."""
    result = lostfound("ingest", jsonl(folder / f"{sweep}.jsonl", pages), "--sweep", sweep, "--json", *options)
    assert result.code == 0
    (row,) = result.rows
    newer = row["older_than"]
    assert newer is None or isinstance(newer, str)
    return newer, result.err


def test_a_sweep_that_is_older_than_the_one_before_it_causes_a_warning(lostfound: Lostfound, tmp_path: Path) -> None:
    url = "https://a.org/"
    assert ingest(lostfound, tmp_path, "february", [page(url, TEXT, FEBRUARY)])[0] is None
    newer, warning = ingest(lostfound, tmp_path, "january", [page(url, TEXT, JANUARY + n * DAY) for n in range(3)])
    assert newer == "february"
    assert "2026-02-01" in warning
    assert "2026-01-03" in warning
    assert "cancel sweep february and ingest it again" in warning
    assert ingest(lostfound, tmp_path, "january", [page(url, TEXT, JANUARY + n * DAY) for n in range(3)])[0] == newer
    assert [row["newest"] for row in lostfound("sweep", "list", "--json").rows] == [
        "2026-02-01T00:00:00Z",
        "2026-01-03T00:00:00Z",
    ]
    assert "2026-01-03" in lostfound("sweep", "list").out
    # The advice leads to the right order.
    assert lostfound("sweep", "cancel", "february").code == 0
    assert ingest(lostfound, tmp_path, "february", [page(url, TEXT, FEBRUARY)]) == (None, "")


def test_sweeps_in_order_cause_no_warning(lostfound: Lostfound) -> None:
    for sweep in SWEEPS:
        result = lostfound("ingest", SAMPLE / f"{sweep}.jsonl", "--sweep", sweep, "--json")
        assert (result.rows[0]["older_than"], result.err) == (None, "")


@pytest.mark.parametrize(
    "times",
    [
        [0],  # the page has no time, so the time of the ingest is stored
        [FEBRUARY + 10_000 * DAY, JANUARY - DAY],  # the clock of a crawler was wrong
    ],
)
def test_times_that_no_crawler_measured_prove_nothing(lostfound: Lostfound, tmp_path: Path, times: list[int]) -> None:
    pages = [page(f"https://a.org/{n}", TEXT, time) for n, time in enumerate(times)]
    for line in pages:
        if not line["fetch_time"]:
            del line["fetch_time"]
    ingest(lostfound, tmp_path, "before", pages)
    assert ingest(lostfound, tmp_path, "january", [page("https://a.org/0", TEXT, JANUARY)])[0] is None


def test_the_newest_capture_of_all_inputs_of_a_sweep_counts(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest(lostfound, tmp_path, "february", [page("https://a.org/", TEXT, FEBRUARY)])
    assert lostfound("sweep", "open", "march").code == 0
    newest = jsonl(tmp_path / "1.jsonl", [page("https://a.org/1", TEXT, FEBRUARY + DAY)])
    assert lostfound("ingest", newest, "--sweep", "march", "--keep-open").code == 0
    assert ingest(lostfound, tmp_path, "march", [page("https://a.org/2", TEXT, JANUARY)])[0] is None


def test_a_sweep_of_other_hosts_is_not_compared(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest(lostfound, tmp_path, "a", [page("https://a.org/", TEXT, FEBRUARY)])
    assert ingest(lostfound, tmp_path, "b", [page("https://b.org/", TEXT, JANUARY)])[0] is None


@pytest.mark.usefixtures("sample_state")
def test_find_names_the_order_of_sweeps(lostfound: Lostfound) -> None:
    order = "sweeps in ingest order: 2023-03, 2024-05, 2025-09"
    for arguments in (["--missing"], [f"{SITE}/guide/alerts.html"], [f"{SITE}/faq.html", f"{SITE}/install.html"]):
        assert order in lostfound("find", *arguments).out.splitlines(), arguments
    # Machines read the other formats; `sweep list` shows them the order.
    assert "order" not in lostfound("find", "--missing", "--csv").out


def test_find_shows_that_the_captures_have_another_order(lostfound: Lostfound, tmp_path: Path) -> None:
    for sweep, time in (("february", FEBRUARY), ("january", JANUARY)):
        ingest(lostfound, tmp_path, sweep, [page("https://a.org/", TEXT, time)])
    ingest(lostfound, tmp_path, "march", [page("https://a.org/", TEXT, FEBRUARY + 30 * DAY)], "--keep-open")
    line = "sweeps in ingest order: february, january; their captures are in a different order, see"
    assert line in lostfound("find", "https://a.org/").out, "an open sweep does not make pages missing"


def test_find_names_the_last_sweeps_only(lostfound: Lostfound, tmp_path: Path) -> None:
    for number in range(8):
        ingest(lostfound, tmp_path, f"s{number}", [page("https://a.org/", TEXT, JANUARY + number)])
    line = "sweeps in ingest order: 2 earlier ones, s2, s3, s4, s5, s6, s7"
    assert line in lostfound("find", "https://a.org/").out.splitlines()
