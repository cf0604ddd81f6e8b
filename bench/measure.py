"""Measure time with stopwatches that can pause, read memory use from /proc, and run functions in fresh processes.

A function in a fresh process inherits no caches, heap or threads. Figures can only be compared within one run on one
machine, so tables print ratios.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "out"


class Stopwatch:
    """Adds up the wall-clock and CPU seconds (of all threads) spent inside `running`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds += time.perf_counter() - wall
        self.cpu_seconds += time.process_time() - cpu

    def figures(self, documents: int) -> dict[str, Any]:
        """Return the figures that all runs have in common."""
        return {
            "documents": documents,
            "seconds": round(self.seconds, 4),
            "cpu_seconds": round(self.cpu_seconds, 4),
            "documents_per_second": round(documents / self.seconds, 1),
            "cpu_us_per_document": round(self.cpu_seconds / documents * 1e6, 2),
            "rss_mib": memory_mib("VmRSS"),
            "rss_peak_mib": memory_mib("VmHWM"),
        }


def memory_mib(field: str = "VmRSS", pid: int | str = "self") -> int:
    """Return the resident memory of a process in MiB: current (`VmRSS`) or peak (`VmHWM`).

    getrusage would be wrong, because a child's ru_maxrss starts at its parent's value.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) >> 10
    return 0


def in_child(target: str, **arguments: Any) -> Any:
    """Call the function `target` (`module:function`) with JSON arguments in a new process, and return its result.

    Raise RuntimeError with the end of the child's stderr if the call fails.
    """
    command = [sys.executable, "-m", "bench.measure", target, json.dumps(arguments)]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise RuntimeError(f"{target} failed:\n{completed.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return result


def main() -> None:
    target, arguments = sys.argv[1:]
    module, function = target.split(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(arguments))))


if __name__ == "__main__":
    main()
