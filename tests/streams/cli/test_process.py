"""Effects on the whole process."""

from __future__ import annotations

import os

import pytest

from streams.cli import process


def test_child_processes_do_not_import_from_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    process.configure()
    assert os.environ["PYTHONSAFEPATH"] == "1"
