"""Measure CPU time and memory of the analyses on generated data sets of growing size, with a plot.

    python -m bench.replicas.scale [--pages 100000 1000000 10000000] [--analyses mirrors replicas collections]

10 million pages are 100 million links on 238,000 hosts. Each analysis runs in a process of its own, with the default
settings. The figures and the plot are written to bench/out/analyses-scale.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.measure import OUT, in_child, memory_mib
from bench.replicas import generated_crawl
from streams.analyses.current_pages import create_pages
from streams.analyses.sql_engine import DuckDb, SqlEngine
from streams.settings import AnalysisSettings, load

FOLDER = OUT / "analyses-scale"
PAGES = (100_000, 300_000, 1_000_000)
CPU_MINUTES_MAX, MEMORY_GIB_MAX = 5, 4  # for 10 million pages


def _mirrors(engine: SqlEngine, settings: AnalysisSettings, counters: Counter[str]) -> int:
    from streams.analyses.mirrors import compute

    return len(compute(engine, settings, counters=counters))


def _replicas(engine: SqlEngine, settings: AnalysisSettings, counters: Counter[str]) -> int:
    from streams.analyses.replicas import compute

    return len(compute(engine, settings, counters=counters))


def _collections(engine: SqlEngine, settings: AnalysisSettings, _: Counter[str]) -> int:
    from streams.analyses.collections.compute_collections import compute

    result = compute(engine, clusters_min=settings.collection_clusters_min, urls_max=settings.collection_urls_max)
    return len(result.collections)


ANALYSES: dict[str, Callable[[SqlEngine, AnalysisSettings, Counter[str]], int]] = {
    "mirrors": _mirrors,
    "replicas": _replicas,
    "collections": _collections,
}


def measure(folder: str, analysis: str) -> dict[str, Any]:
    """Run an analysis on a data set. Return its CPU seconds in all threads, its peak memory, and what it found."""
    settings, counters = load().analyses, Counter[str]()
    start, cpu_start = time.perf_counter(), time.process_time()
    limits = {"memory_mib": settings.memory_mib, "threads": settings.threads}
    with DuckDb(Path(folder), **limits, temporary_folder=Path(folder)) as engine:
        create_pages(engine, sweep=1)
        results = ANALYSES[analysis](engine, settings, counters)
    return {
        "analysis": analysis,
        "cpu_seconds": round(time.process_time() - cpu_start, 1),
        "seconds": round(time.perf_counter() - start, 1),
        "memory_mib": memory_mib("VmHWM"),
        "results": results,
        "limits": dict(+counters),
    }


def plot(samples: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (cpu, memory) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for analysis in dict.fromkeys(sample["analysis"] for sample in samples):
        rows = [sample for sample in samples if sample["analysis"] == analysis]
        sizes = [row["pages"] / 1e6 for row in rows]
        cpu.plot(sizes, [row["cpu_seconds"] for row in rows], marker="o", label=analysis)
        memory.plot(sizes, [row["memory_mib"] / 1024 for row in rows], marker="o", label=analysis)
    cpu.plot([0, max(s["pages"] for s in samples) / 1e6], [0, max(s["pages"] for s in samples) / 1e7 * 60 * CPU_MINUTES_MAX],
             ls=":", c="gray", label=f"{CPU_MINUTES_MAX} minutes for 10 million pages")  # fmt: skip
    memory.axhline(MEMORY_GIB_MAX, ls=":", c="gray")
    cpu.set(title="CPU seconds", xlabel="million pages", ylim=(0, None))
    memory.set(title="peak memory, GiB", xlabel="million pages", ylim=(0, None))
    cpu.legend()
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the analyses on generated data sets of growing size.")
    parser.add_argument("--pages", type=int, nargs="+", default=list(PAGES))
    parser.add_argument("--analyses", nargs="+", choices=list(ANALYSES), default=list(ANALYSES))
    arguments = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    samples = []
    print(
        "| pages | links | hosts | analysis | CPU s | s | peak MiB | results | limits |\n|---|---|---|---|---|---|---|---|---|"
    )
    for size in sorted(arguments.pages):
        data_set = FOLDER / "data"
        shutil.rmtree(data_set, ignore_errors=True)
        hosts, pages, links = generated_crawl.write(data_set, size)
        for analysis in arguments.analyses:
            sample = in_child("bench.replicas.scale:measure", folder=str(data_set), analysis=analysis)
            samples.append({"pages": pages, "links": links, "hosts": hosts, **sample})
            row = samples[-1]
            print(
                f"| {pages:,} | {links:,} | {hosts:,} | {analysis} | {row['cpu_seconds']} | {row['seconds']} "
                f"| {row['memory_mib']:,} | {row['results']:,} | {row['limits']} |",
                flush=True,
            )
        shutil.rmtree(data_set)
    (FOLDER / "samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    plot(samples, FOLDER / "scale.png")
    print(f"plot: {FOLDER / 'scale.png'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
