"""The manual pages installed with the program: messages and help texts name the command that prints a page."""

from __future__ import annotations

from pathlib import Path

MANUAL_PAGES = ("cli", "formats-export", "formats-input", "json", "operations")


def manual_page_path(name: str) -> Path:
    """Return the path of a manual page: in the installed package's docs/ folder, or else in the checkout's."""
    packaged = Path(__file__).with_name("docs") / f"{name}.md"
    return packaged if packaged.exists() else Path(__file__).parents[1] / "docs" / f"{name}.md"


def manual_command(name: str) -> str:
    """Return the command that prints a manual page.

    Messages show this command instead of a path, because not every user has a checkout.
    """
    assert name in MANUAL_PAGES
    return f"`lostfound docs {name}`"
