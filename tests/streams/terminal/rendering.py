"""Rendering for the tests of this folder."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType


def render(content: RenderableType, width: int = 60) -> list[str]:
    """Return the printed lines of a table, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(content, crop=False)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines == [line.rstrip() for line in lines], "lines have no trailing spaces"
    return lines
