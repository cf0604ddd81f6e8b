"""Columns, formatted figures and URL lists."""

from __future__ import annotations

import pytest
from rich.text import Text

from streams.terminal.layout import BlockTable, first_urls, format_estimate, format_share
from tests.streams.terminal.rendering import render


def test_columns_are_aligned_and_urls_are_below_them() -> None:
    cells = [("a", "1.00", "One"), ("bb", "12.50", "Two")]
    rows = [(row_cells, [Text(f"https://{row_cells[0]}.example/")]) for row_cells in cells]
    assert render(BlockTable(("id", ">n", "title"), rows)) == [
        "id      n  title",
        "a    1.00  One",
        "    https://a.example/",
        "bb  12.50  Two",
        "    https://bb.example/",
    ]
    narrow = render(BlockTable(("id", ">n", "title"), rows), 14)
    assert narrow[:2] == ["id     n title", "a   1.00 One"]


def test_a_long_title_is_cut_and_not_folded() -> None:
    title = Text("word " * 30, overflow="ellipsis")
    lines = render(BlockTable(("id", "title"), [(("a", title), [Text("u")])]))
    assert len(lines) == 3
    assert lines[1].endswith("…")
    assert len(lines[1]) == 60


def test_only_the_first_urls_are_listed() -> None:
    assert render(first_urls([f"u{n}" for n in range(5)])) == ["u0", "u1", "u2", "and 2 more"]
    assert render(first_urls(["u0"], 1_001)) == ["u0", "and 1,000 more"]
    assert render(first_urls(["u0", "u1"])) == ["u0", "u1"]


@pytest.mark.parametrize(("value", "style"), [(0.8, "green"), (0.5, "yellow"), (0.49, "dim"), (None, "")])
def test_the_colour_of_a_share_depends_on_its_size(value: float | None, style: str) -> None:
    assert format_share(value).style == style


def test_only_1_is_shown_as_1() -> None:
    assert [format_share(value).plain for value in (1.0, 0.9998, 0.994, 0.0)] == ["1.00", "0.99", "0.99", "0.00"]


def test_a_standard_error_that_rounds_to_0_is_hidden() -> None:
    assert format_estimate(0.75, 0.004).plain == "0.75"
    assert format_estimate(0.75, 0.02).plain == "0.75 ±0.02"
