"""A worker starts only if it may open enough files."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
CHECK = """
from streams.kafka.worker.file_limit import count_open_files, ensure_open_files, open_files_max
from streams.settings import load
ensure_open_files(load().server)
print(count_open_files(), open_files_max())
"""


def run(soft: int, hard: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
    )


def test_the_soft_limit_is_raised_to_the_hard_limit() -> None:
    process = run(256, 1000, CHECK)
    assert process.returncode == 0, process.stderr
    open_files, limit = map(int, process.stdout.split())
    assert limit == 1000
    assert 3 <= open_files < 100


@pytest.mark.parametrize("hard", [256, 895])
def test_a_worker_with_too_low_a_limit_does_not_start(tmp_path: Path, hard: int) -> None:
    worker = ("from streams.cli import main; main()", "worker", "--data-dir", str(tmp_path))
    process = run(256, hard, *worker)
    assert process.returncode == 2
    assert f"may open {hard} files" in process.stderr
    assert "need 896" in process.stderr
    assert "ulimit -n" in process.stderr
