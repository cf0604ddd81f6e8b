"""Logs are for machines where no person looks: one object a line, whoever wrote it."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import logging, structlog
from streams.cli.log_output import configure
configure({verbosity})
structlog.get_logger("own").info("done", pages=3)
logging.getLogger("library").warning("slow by %s", 5)
logging.getLogger("library").info("chatter")
logging.getLogger("aiokafka.conn").error("no connection")
"""


def told(verbosity: int) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(verbosity=verbosity)], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_a_command_tells_warnings_only() -> None:
    assert [(line["level"], line["event"]) for line in told(0)] == [("warning", "slow by 5")]


def test_a_worker_tells_what_it_does() -> None:
    lines = told(1)
    assert [(line["level"], line["event"]) for line in lines] == [
        ("info", "done"),
        ("warning", "slow by 5"),
        ("error", "no connection"),
    ]
    assert lines[0]["pages"] == 3
    assert all(str(line["timestamp"]).endswith("Z") for line in lines)


def test_everything_can_be_told() -> None:
    assert "chatter" in [line["event"] for line in told(2)]
