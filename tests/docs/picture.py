"""Convert the output of `lostfound demo` into docs/demo.svg: ANSI on stdin, SVG on stdout. `make picture` runs it."""

from __future__ import annotations

import io
import re
import sys

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

WIDTH = 100
# Readable on a white and on a black background, because GitHub uses both.
THEME = TerminalTheme(
    (250, 250, 248),
    (40, 42, 46),
    [
        (40, 42, 46),
        (178, 34, 34),
        (34, 124, 58),
        (160, 110, 0),
        (40, 84, 160),
        (130, 60, 140),
        (0, 110, 125),
        (90, 90, 90),
    ],
    [
        (120, 120, 120),
        (200, 50, 50),
        (34, 140, 66),
        (176, 122, 0),
        (50, 100, 190),
        (150, 70, 160),
        (0, 130, 148),
        (60, 60, 60),
    ],
)

TEXT = re.compile(r'<text class="([\w-]+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>([^<]*)</text>')
CHARACTER_WIDTH = 12.2  # in the pictures that rich draws
SPACE = "&#160;"


def strip_spaces(match: re.Match[str]) -> str:
    """Strip the spaces around a piece of text, because some viewers drop them."""
    kind, x, y, length, rest, text = match.groups()
    stripped = text
    while stripped.startswith(SPACE):
        stripped = stripped.removeprefix(SPACE)
    before = (len(text) - len(stripped)) // len(SPACE)
    after = 0
    while stripped.endswith(SPACE):
        stripped, after = stripped.removesuffix(SPACE), after + 1
    if not stripped.strip():
        return ""
    x, length = (
        f"{float(x) + before * CHARACTER_WIDTH:.1f}",
        f"{float(length) - (before + after) * CHARACTER_WIDTH:.1f}",
    )
    return f'<text class="{kind}" x="{x}" y="{y}" textLength="{length}"{rest}>{stripped}</text>'


console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
console.print(Text.from_ansi(sys.stdin.read()), end="")
picture = console.export_svg(title="lostfound demo", theme=THEME, unique_id="demo")
# Rich links to web fonts. Use a local monospaced font instead, so that viewers fetch nothing.
picture = re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)
picture = TEXT.sub(strip_spaces, picture).replace("Fira Code", "ui-monospace, Menlo, Consolas")
sys.stdout.write("\n".join(line.rstrip() for line in picture.splitlines() if line.strip()) + "\n")
