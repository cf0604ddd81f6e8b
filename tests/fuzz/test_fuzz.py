"""A short seeded run of the fuzz target; `make fuzz` is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_short_fuzz_run_passes() -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", "5", "--seed", "1"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    assert all(f"{target}: " in process.stdout for target in ("readers", "urls", "codecs", "links"))
