"""The command line over the sample set, in one process: fast, and with real commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streams.cli import app

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "streams" / "demo" / "sample"
SITE = "https://www.windvane.example"
SWEEPS = ("2023-03", "2024-05", "2025-09")


class Done(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Lostfound = Callable[..., Done]


@pytest.fixture
def lostfound(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lostfound:
    """Runs a command on a state of this test's own."""
    monkeypatch.setenv("LOSTFOUND_DATA_DIR", str(tmp_path / "data"))
    for name in ("LOSTFOUND_CONFIG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Done:
        code = app.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run


@pytest.fixture
def sampled(lostfound: Lostfound) -> Lostfound:
    """The same, with the three sweeps of the sample set in."""
    for sweep in SWEEPS:
        assert lostfound("ingest", SAMPLE / f"{sweep}.jsonl", "--sweep", sweep).code == 0
    return lostfound
