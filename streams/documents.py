"""The documents that are installed with the program: messages and help texts refer to them by a command."""

from __future__ import annotations

from pathlib import Path

DOCUMENTS = ("cli", "formats-export", "formats-input", "json", "operations")


def document_file(name: str) -> Path:
    """Return the path of a document: next to this module in a wheel, in the checkout otherwise."""
    packaged = Path(__file__).with_name("docs") / f"{name}.md"
    return packaged if packaged.exists() else Path(__file__).parents[1] / "docs" / f"{name}.md"


def document_command(name: str) -> str:
    """Return the command that prints a document, for messages: a user may not have the files of the checkout."""
    assert name in DOCUMENTS
    return f"`lostfound docs {name}`"
