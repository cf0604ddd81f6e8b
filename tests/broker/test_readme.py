"""Run the commands of the README's section on Kafka, with another prefix, port and folder."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOSTFOUND = [sys.executable, "-c", "import sys; sys.argv[0] = 'lostfound'; from streams.cli import main; main()"]
SECONDS_MAX = 120


def commands(names: dict[str, str]) -> list[str]:
    """Return the commands of the section's shell block, without comments and with some names replaced."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Running on Kafka")[1]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block
    text = re.sub(r"\s+# .*", "", block[1])
    for old, new in names.items():
        assert old in text
        text = text.replace(old, new)
    return text.splitlines()


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def test_the_commands_of_the_readme_work(make_collection: Callable[..., Any], tmp_path: Path) -> None:
    collection = make_collection(1)
    env = {**os.environ, "KAFKA_BOOTSTRAP": collection.bootstrap}
    names = {
        "--prefix web": f"--prefix {collection.prefix}-web",
        "8081": free_port(),
        "var/worker-1": str(tmp_path / "1"),
    }

    def run(line: str) -> str:
        process = subprocess.run(
            [*LOSTFOUND, *shlex.split(line)[1:]], cwd=ROOT, env=env, text=True, capture_output=True, check=False
        )
        return process.stdout

    def run_until(line: str, expected: str) -> None:
        """Repeat a command until its output contains `expected`: pages and starting workers take a moment."""
        deadline = time.monotonic() + SECONDS_MAX
        while expected not in (output := run(line)):
            assert time.monotonic() < deadline, output

    create, work, publish, sweeps, clusters = commands(names)
    assert "with 8 partitions" in run(create)
    worker = subprocess.Popen([*LOSTFOUND, *shlex.split(work.removesuffix("&"))[1:]], cwd=ROOT, env=env)
    try:
        assert "published 17 pages of sweep 2025-09" in run(publish)
        run_until(sweeps, "committed")
        run_until(clusters, "https://www.windvane.example/")
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
