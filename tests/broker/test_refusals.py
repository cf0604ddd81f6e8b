"""A worker that cannot start says why in a line, and ends with the code of the table."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any


def last_words(made: Any, name: str, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit code, and what was said that is no line of the log."""
    code = process.wait(120)
    lines = (made.folder / f"{name}.log").read_text().splitlines()
    assert not any("Traceback" in line for line in lines), "what people can mend has no traceback"
    return code, "\n".join(line for line in lines if not _is_log(line))


def _is_log(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def test_a_port_that_is_taken_and_a_folder_that_is_in_use(collection: Callable[..., Any]) -> None:
    made = collection(1)
    url = made.serve("a")
    port = url.rpartition(":")[2]
    code, said = last_words(made, "b", made.worker("b", "--port", port))
    assert code == 2
    assert said.splitlines() == [
        f"lostfound: cannot listen on 127.0.0.1:{port}: Address already in use",
        "  choose another --port",
    ]
    # The later --data-dir counts: the folder of the one that runs.
    code, said = last_words(made, "c", made.worker("c", "--data-dir", made.folder / "a"))
    assert code == 4
    assert "another process is writing to the state" in said
