"""Test that a worker that cannot start prints the reason and exits with the documented code."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any


def wait_for_exit(collection: Any, name: str, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Return the exit code of a worker and its output without log records."""
    code = process.wait(120)
    lines = (collection.folder / f"{name}.log").read_text().splitlines()
    assert not any("Traceback" in line for line in lines), "user errors must not print a traceback"
    return code, "\n".join(line for line in lines if not _is_log_record(line))


def _is_log_record(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def test_a_port_or_a_folder_in_use_is_reported(make_collection: Callable[..., Any]) -> None:
    collection = make_collection(1)
    url = collection.serve("a")
    port = url.rpartition(":")[2]
    code, message = wait_for_exit(collection, "b", collection.worker("b", "--port", port))
    assert code == 2
    assert message.splitlines() == [
        f"lostfound: cannot listen on 127.0.0.1:{port}: Address already in use",
        "  choose another --port",
    ]
    # The last --data-dir wins: the folder of the running worker.
    folder = collection.folder / "a"
    code, message = wait_for_exit(collection, "c", collection.worker("c", "--data-dir", folder))
    assert code == 4
    assert message.splitlines() == [
        f"lostfound: another worker uses the folder {folder}",
        "  choose another --data-dir: each worker needs its own folder",
    ]
    # It ends before it joins the group, so the partitions of the running worker stay where they are.
    assert "group" not in (collection.folder / "c.log").read_text()
