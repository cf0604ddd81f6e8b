from __future__ import annotations

import pytest

from streams.cli.output import escape_cell


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_a_cell_never_starts_a_formula(start: str) -> None:
    assert escape_cell(f"{start}1+1\x1b") == f"'{start}1+1%1B"


def test_numbers_and_urls_stay_unchanged() -> None:
    assert [escape_cell(value) for value in (-0.5, None, "https://a.example/")] == [-0.5, None, "https://a.example/"]
