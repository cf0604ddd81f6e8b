"""What the README says of clusters, run as it stands there but for the prefix, the port and the folder."""

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
    """The lines of the section's shell block, without comments, and with other names."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## On a cluster")[1]
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


def test_the_commands_of_the_readme(collection: Callable[..., Any], tmp_path: Path) -> None:
    made = collection(1)
    env = {**os.environ, "KAFKA_BOOTSTRAP": made.bootstrap}
    names = {"--prefix web": f"--prefix {made.prefix}-web", "8081": free_port(), "var/worker-1": str(tmp_path / "1")}

    def say(line: str) -> str:
        done = subprocess.run(
            [*LOSTFOUND, *shlex.split(line)[1:]], cwd=ROOT, env=env, text=True, capture_output=True, check=False
        )
        return done.stdout

    def say_until(line: str, wanted: str) -> None:
        """Pages take a moment on their way, and so does a worker that starts."""
        until = time.monotonic() + SECONDS_MAX
        while wanted not in (said := say(line)):
            assert time.monotonic() < until, said

    create, work, publish, sweeps, clusters = commands(names)
    assert "with 8 partitions" in say(create)
    worker = subprocess.Popen([*LOSTFOUND, *shlex.split(work.removesuffix("&"))[1:]], cwd=ROOT, env=env)
    try:
        assert "published 17 pages of sweep 2025-09" in say(publish)
        say_until(sweeps, "committed")
        say_until(clusters, "https://www.windvane.example/")
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
