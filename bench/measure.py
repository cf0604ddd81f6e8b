"""What every benchmark here measures with: stopwatches that can pause, memory from /proc, and a process of its own.

Each run is made in a fresh process, so that no run inherits another's caches, heap or threads. Figures mean something
only beside others of the same run on the same machine: tables print ratios.
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
    """Adds up wall and CPU seconds (all threads) of what runs inside `running`."""

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
        """The figures that every run reports."""
        return {
            "documents": documents,
            "seconds": round(self.seconds, 4),
            "cpu_seconds": round(self.cpu_seconds, 4),
            "documents_a_second": round(documents / self.seconds, 1),
            "cpu_us_a_document": round(self.cpu_seconds / documents * 1e6, 2),
            "rss_mib": memory_mib("VmRSS"),
            "rss_peak_mib": memory_mib("VmHWM"),
        }


def memory_mib(field: str = "VmRSS", pid: int | str = "self") -> int:
    """Resident memory of a process now (`VmRSS`) or at its peak (`VmHWM`).

    Not from getrusage: a child's ru_maxrss starts at what its parent had.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) >> 10
    return 0


def in_child(target: str, **arguments: Any) -> Any:
    """Call `module:function` with JSON arguments in a new process and return what it returns.

    Raises RuntimeError with the end of the child's error output when it fails.
    """
    command = [sys.executable, "-m", "bench.measure", target, json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{target} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    target, arguments = sys.argv[1:]
    module, function = target.split(":")
    print(json.dumps(getattr(import_module(module), function)(**json.loads(arguments))))


if __name__ == "__main__":
    main()
