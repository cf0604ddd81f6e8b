"""Logs without a terminal are JSON, one object per line, from our code and from libraries."""

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


def log_lines(verbosity: int) -> list[dict[str, object]]:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(verbosity=verbosity)], capture_output=True, text=True, check=True
    )
    assert result.stdout == ""
    return [json.loads(line) for line in result.stderr.splitlines()]


def test_verbosity_0_logs_warnings_only() -> None:
    assert [(line["level"], line["event"]) for line in log_lines(0)] == [("warning", "slow by 5")]


def test_verbosity_1_logs_progress() -> None:
    lines = log_lines(1)
    assert [(line["level"], line["event"]) for line in lines] == [
        ("info", "done"),
        ("warning", "slow by 5"),
        ("error", "no connection"),
    ]
    assert lines[0]["pages"] == 3
    assert all(str(line["timestamp"]).endswith("Z") for line in lines)


def test_verbosity_2_logs_everything() -> None:
    assert "chatter" in [line["event"] for line in log_lines(2)]
