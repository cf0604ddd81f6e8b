"""Print the CPU time of a worker per component, sampled by py-spy: `python -m bench.kafka_profile`.

A sample is attributed to the component of the innermost frame that belongs to a component, so asyncio is attributed to
its caller. Samples of start-up (imports, loading compiled code) and of waiting are omitted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.cluster import broker, new_collection
from bench.engine import temporary_folder, write_pages
from bench.kafka import MOVES
from bench.measure import ROOT

SAMPLES_PER_SECOND = 200
WAITING = ("select (selectors.py", "wait (threading.py", "_worker (concurrent/futures/thread.py")
STARTING = ("_find_and_load", "numba/core/", "_open (state/store.py")
# The first entry contained in a frame names its component; innermost frames are tried first.
PARTS = (
    ("SketchOperator", "sketching"),
    ("state/store.py", "RocksDB"),
    ("state/codecs/changelog_record.py", "packing the changelog"),
    ("kafka/wire/packed_messages.py", "msgspec"),
    ("kafka/wire/page_messages.py", "msgspec"),
    ("aiokafka/", "aiokafka"),
    ("faust/", "Faust"),
    ("mode/", "Faust"),
    ("streams/operators/sketch.py", "sketching"),
    ("streams/sketch/extract.py", "sketching"),
    ("streams/sketch/sketcher.py", "_sketching or verifying"),
    ("streams/operators/", "operators"),
    ("kafka/worker/stages.py", "operators"),
    ("state/", "operators"),
    ("kafka/", "runner and producer"),
)


def part_of(stack: list[str]) -> str | None:
    """Return the component to which a sample is attributed, or None for start-up and waiting."""
    if any(name in stack[-1] for name in WAITING) or any(name in frame for frame in stack for name in STARTING):
        return None
    if any("operators/sketch.py" in frame for frame in stack):
        return "sketching"
    for frame in reversed(stack):
        for name, part in PARTS:
            if name in frame:
                return "operators" if part.startswith("_") else part
    return "asyncio and the rest"


def profile(paths: list[Path], folder: Path, partitions: int) -> list[str]:
    """Profile a worker that processes `paths`, and return py-spy's folded stacks."""
    samples_file = folder / "samples.txt"
    with broker(folder) as running, new_collection(folder, running, partitions) as collection:
        collection.publish(paths)
        command = collection.command_line(
            "worker", "--data-dir", collection.folder / "a", "--port", 0, "--until-idle"
        )
        options = [
            "record",
            "--nonblocking",
            "-r",
            SAMPLES_PER_SECOND,
            "-f",
            "raw",
            "-o",
            samples_file,
            "--",
            *command,
        ]
        completed = subprocess.run(
            [str(Path(sys.executable).parent / "py-spy"), *map(str, options)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    if not samples_file.exists():
        raise RuntimeError(f"py-spy wrote no profile:\n{completed.stderr[-2000:]}")
    return samples_file.read_text().splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the CPU time of a worker per component.")
    parser.add_argument("--documents", type=int, default=20_000, help="synthetic pages")
    parser.add_argument("--html", action="store_true", help="profile real HTML pages instead of synthetic pages")
    parser.add_argument("--partitions", type=int, default=4)
    args = parser.parse_args()
    with temporary_folder() as folder:
        paths = sorted(MOVES.glob("*/sweep-*")) if args.html else [write_pages(folder / "p.jsonl", args.documents)]
        lines = profile(paths, folder, args.partitions)
    parts: Counter[str] = Counter()
    frames: Counter[str] = Counter()
    for line in lines:
        text, samples = line.rsplit(" ", 1)
        stack = text.split(";")
        if (part := part_of(stack)) is not None:
            parts[part] += int(samples)
            frames[f"{part}: {stack[-1]}"] += int(samples)
    for counts in (parts.most_common(), frames.most_common(40)):
        for name, count in counts:
            print(f"{100 * count / parts.total():5.1f}%  {name}")
        print()


if __name__ == "__main__":
    main()
