"""Fixtures that run commands in this process on the sample set, which is fast and tests the real commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streams.cli import app

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "streams" / "demo" / "sample"
SITE = "https://www.windvane.example"
SWEEPS = ("2023-03", "2024-05", "2025-09")
COMMAND = [sys.executable, "-c", "from streams.cli import main; main()"]  # for tests that need a new process


class Result(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Lostfound = Callable[..., Result]


@pytest.fixture
def lostfound(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lostfound:
    """Run a command on the state in `tmp_path / "data"`."""
    monkeypatch.setenv("LOSTFOUND_DATA_DIR", str(tmp_path / "data"))
    for name in ("LOSTFOUND_CONFIG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Result:
        code = app.run([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return Result(code, output.out, output.err)

    return run


@pytest.fixture
def sample_state(lostfound: Lostfound, tmp_path: Path) -> Path:
    """The folder of a state with the three sweeps of the sample set."""
    for sweep in SWEEPS:
        assert lostfound("ingest", SAMPLE / f"{sweep}.jsonl", "--sweep", sweep).code == 0
    return tmp_path / "data"
