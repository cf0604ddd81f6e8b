"""Grow a state to millions of documents; plot rate, memory, disk use and latencies by size: `make bench-scale`.

Synthetic pages are ingested in chunks, in one process. Each chunk yields a sample. Some sizes also get a checkpoint:
the sweep is committed, some sites are crawled again after pages moved or disappeared, and `similar` and `find` are
timed. The samples are stored in bench/out/scale/samples.jsonl, and the state is preserved, so the same command resumes
an interrupted run. `--fresh` starts over.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.engine import FETCHED, one_process_settings, warm_up, write_pages
from bench.measure import OUT, ROOT, Stopwatch, in_child, memory_mib
from state import sweeps
from state.families import Family
from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.settings import Settings

FOLDER = OUT / "scale"
SAMPLES = FOLDER / "samples.jsonl"
CHECKPOINTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)  # shares of the final number of documents
QUERIES = 500  # per checkpoint
WARM_UP = 200  # untimed queries before the timed ones
CLUSTERING = (Family.DOCUMENTS, Family.BANDS, Family.EDGES, Family.PARENTS, Family.MEMBERS)
FINDING = (Family.SAMPLES, Family.WORDS)
RATE_AT = 100_000  # documents; the final rate is compared with the rate up to this number

Sample = dict[str, Any]


class Growth:
    """A state that grows chunk by chunk, and its samples."""

    def __init__(self, data_dir: Path, documents: int, chunk: int, settings: Settings) -> None:
        self.documents, self.chunk, self.settings = documents, chunk, settings
        self.scratch = data_dir / "scratch"
        self.scratch.mkdir(parents=True, exist_ok=True)
        warm_up(self.scratch, settings)
        self.store = Store(data_dir / "state", settings.store)
        self.samples: list[Sample] = []
        if SAMPLES.exists():
            self.samples = [json.loads(line) for line in SAMPLES.read_text().splitlines()]
        chunks = -(-documents // chunk)
        self.stops = sorted({max(1, round(share * chunks)) * chunk for share in CHECKPOINTS})

    def grow(self) -> None:
        """Ingest the missing chunks."""
        done = self.samples[-1]["documents"] if self.samples else 0
        for start in range(done, self.documents, self.chunk):
            sample = self._chunk(start)
            if sample["documents"] in self.stops:
                sample["checkpoint"] = self._checkpoint(sample["documents"])
            self.samples.append(sample)
            with SAMPLES.open("a") as out:
                out.write(json.dumps(sample) + "\n")
            print(_progress_line(sample), file=sys.stderr, flush=True)

    def _chunk(self, start: int) -> Sample:
        """Ingest one chunk into the sweep that its checkpoint commits."""
        path = write_pages(self.scratch / f"chunk-{start}.jsonl", self.chunk, start=start)
        checkpoint = next(stop for stop in self.stops if stop > start)
        watch = Stopwatch()
        with watch.running():
            summary = ingest(
                self.store, self.settings, [str(path)], f"grown to {checkpoint}", now=FETCHED + start, keep_open=True
            )
        path.unlink()
        return {
            # A chunk that an interrupted run had begun has no meaningful rate.
            **(watch.figures(self.chunk) if summary.status == "ingested" else {}),
            "rss_mib": memory_mib(),
            "rss_peak_mib": memory_mib("VmHWM"),
            "memory": self.store.bytes_in_memory(),
            "disk": {family.value: self.store.bytes_on_disk(family) for family in Family},
            "documents": start + self.chunk,
            "near": summary.near_duplicates,
        }

    def _checkpoint(self, size: int) -> dict[str, Any]:
        """Commit the sweep, crawl some sites again, and time queries about new texts and dead URLs."""
        number = self.stops.index(size) + 1
        sweep = sweeps.named(self.store, f"grown to {size}")
        assert sweep is not None
        sweeps.commit(self.store, sweep, FETCHED + size)
        recrawl_file, dead_urls = self.scratch / f"again-{size}.jsonl", self.scratch / f"dead-{size}.jsonl"
        options = {"grown": size, "sweep": number, "asked": dead_urls}
        command = [sys.executable, "-m", "bench.recrawl", *(f"--{name}={value}" for name, value in options.items())]
        with recrawl_file.open("wb") as out:
            subprocess.run(command, cwd=ROOT, stdout=out, check=True)
        watch = Stopwatch()
        with watch.running():
            summary = ingest(
                self.store, self.settings, [str(recrawl_file)], f"again at {size}", now=FETCHED + size + 1
            )
        recrawl_file.unlink()
        return {
            "recrawled": summary.pages,
            "recrawl_rate": round(summary.pages / watch.seconds),
            **in_child(
                "bench.scale:time_queries",
                data_dir=str(self.store.path),
                documents=self.documents + size,
                dead_urls=str(dead_urls),
            ),
        }


def time_queries(data_dir: str, documents: int, dead_urls: str) -> dict[str, Any]:
    """Time `similar` on new texts, a quarter of them near-copies of stored ones, and `find` on dead URLs.

    This function runs in a child process that reads the state while the writer has it open, as commands do.
    """
    from streams.find import Finder
    from streams.find import warm_up as warm_up_find
    from streams.query import find_similar
    from streams.sketch.sketcher import Sketcher

    settings = one_process_settings()
    # A separate process generates the texts, because the vocabulary takes memory.
    fresh = in_child("bench.generator:texts_of", start=documents, stop=documents + WARM_UP + QUERIES)["texts"]
    with Store(Path(data_dir), settings.store, writable=False) as store:
        view, sketcher = View(store), Sketcher(settings.scheme)
        times, matches = _time_each(lambda text: find_similar(view, settings, sketcher.sketch(text)), fresh, WARM_UP)
        dead = [json.loads(line) for line in Path(dead_urls).read_text().splitlines()]
        dead = dead[:: max(1, len(dead) // (WARM_UP + QUERIES))][: WARM_UP + QUERIES]
        warmed = min(WARM_UP, len(dead) // 2)
        warm_up_find()
        finder = Finder(view, settings)
        find_times, answers = _time_each(finder.find, [question["url"] for question in dead], warmed)
        dead = dead[warmed:]
        moved = [(a, question["moved"]) for a, question in zip(answers, dead, strict=True) if question["moved"]]
        hits = sum(bool(a.candidates) and a.candidates[0].url == new for a, new in moved)
        return {
            **_quantiles("similar", times),
            "similar_found": sum(map(bool, matches)),
            **_quantiles("find", find_times),
            "find_asked": len(dead),
            "find_hit1": round(hits / max(1, len(moved)), 4),
            "reader_rss_peak_mib": memory_mib("VmHWM"),
        }


def _time_each(query: Callable[[Any], Any], arguments: list[Any], warm_up: int) -> tuple[list[float], list[Any]]:
    """Run queries one after another. Return their milliseconds and results, without those of the first `warm_up`."""
    times, answers = [], []
    for argument in arguments:
        started = time.perf_counter()
        answers.append(query(argument))
        times.append(1000 * (time.perf_counter() - started))
    return times[warm_up:], answers[warm_up:]


def _quantiles(name: str, times: list[float]) -> dict[str, float]:
    if not times:
        return {}
    return {
        f"{name}_p50_ms": round(float(np.quantile(times, 0.5)), 3),
        f"{name}_p99_ms": round(float(np.quantile(times, 0.99)), 3),
    }


def per_document(sample: Sample, families: tuple[Family, ...]) -> float:
    """Return the bytes on disk per document."""
    return float(sum(sample["disk"][family.value] for family in families) / sample["documents"])


def _progress_line(sample: Sample) -> str:
    rate = f"{sample['documents_per_second']:,.0f}/s" if "documents_per_second" in sample else "resumed"
    times = sample.get("checkpoint", {})
    latencies = f", similar p99 {times['similar_p99_ms']} ms, find p99 {times.get('find_p99_ms')} ms" if times else ""
    return (
        f"{sample['documents']:>10,} documents, {rate}, {sample['rss_mib']} MiB, clusters "
        f"{per_document(sample, CLUSTERING):.0f} B, find {per_document(sample, FINDING):.0f} B per document{latencies}"
    )


def report(samples: list[Sample]) -> Table:
    """Return the measured figures and their targets as a table."""
    timed = [sample for sample in samples if "documents_per_second" in sample]
    early = [s for s in timed if s["documents"] <= RATE_AT] or timed[:1]
    late = timed[-max(1, len(early)) :]
    last = samples[-1]
    checkpoint: dict[str, Any] = next((s["checkpoint"] for s in reversed(samples) if "checkpoint" in s), {})
    result = Table(title=f"Grown to {last['documents']:,} documents")
    for name in ("what", "measured", "target", ""):
        result.add_column(name)
    for what, value, target, at_most in (
        ("final rate relative to the rate up to 100,000, wall clock", _mean(late, "documents_per_second") / _mean(early, "documents_per_second"), 0.7, False),
        ("final rate relative to the rate up to 100,000, per CPU second", _mean(early, "cpu_us_per_document") / _mean(late, "cpu_us_per_document"), None, False),
        ("peak resident memory, MiB", last["rss_peak_mib"], 1024, True),
        ("sketches, bands, edges, clusters: bytes per document", per_document(last, CLUSTERING), 600, True),
        ("indexes of find: bytes per document", per_document(last, FINDING), 600, True),
        ("captures and locations: bytes per document", per_document(last, (Family.CAPTURES, Family.LOCATIONS)), None, True),
        ("stored texts: bytes per document", per_document(last, (Family.TEXTS,)), None, True),
        ("similar, p99 ms", checkpoint.get("similar_p99_ms", 0.0), 5, True),
        ("find, p99 ms", checkpoint.get("find_p99_ms", 0.0), 20, True),
    ):  # fmt: skip
        met = None if target is None else value <= target if at_most else value >= target
        verdict = {None: "", True: "[green]met[/green]", False: "[red]missed[/red]"}[met]
        result.add_row(
            what, f"{value:,.2f}", "" if target is None else f"{'≤' if at_most else '≥'} {target}", verdict
        )
    return result


def _mean(samples: list[Sample], figure: str) -> float:
    return float(np.mean([sample[figure] for sample in samples]))


def plot(samples: list[Sample], path: Path) -> None:
    """Plot rate, memory, disk use and latencies by number of documents."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, ((rate, memory), (disk, latency)) = plt.subplots(2, 2, figsize=(13, 8.5), layout="constrained")
    timed = [sample for sample in samples if "documents_per_second" in sample]
    rate.plot([s["documents"] / 1e6 for s in timed], [s["documents_per_second"] for s in timed], label="wall clock")
    rate.plot(
        [s["documents"] / 1e6 for s in timed], [1e6 / s["cpu_us_per_document"] for s in timed], label="per CPU second"
    )
    rate.axhline(0.7 * timed[0]["documents_per_second"], ls=":", c="gray", label="0.7 of the first")
    rate.set(title="pages per second, one process", ylim=(0, None))
    sizes = [sample["documents"] / 1e6 for sample in samples]
    memory.plot(sizes, [s["rss_mib"] for s in samples], label="resident")
    for name in samples[0]["memory"]:
        memory.plot(sizes, [s["memory"][name] / (1 << 20) for s in samples], label=f"RocksDB {name}", lw=1)
    memory.axhline(1024, ls=":", c="gray")
    memory.set(title="memory, MiB", ylim=(0, None))
    families = [
        f for f in Family if max(s["disk"][f.value] for s in samples) > 0.002 * sum(samples[-1]["disk"].values())
    ]
    stacked = [[s["disk"][f.value] / s["documents"] for s in samples] for f in families]
    disk.stackplot(sizes, stacked, labels=[f.value for f in families])
    disk.set(title="disk, bytes per document", ylim=(0, None))
    checkpoints = [sample for sample in samples if "checkpoint" in sample]
    for name, colour in (("similar", "C0"), ("find", "C1")):
        for quantile, style in (("p50", "--"), ("p99", "-")):
            points = [s["checkpoint"].get(f"{name}_{quantile}_ms", np.nan) for s in checkpoints]
            latency.plot(
                [s["documents"] / 1e6 for s in checkpoints],
                points,
                c=colour,
                ls=style,
                marker="o",
                label=f"{name} {quantile}",
            )
    latency.set(title="latency, ms", yscale="log")
    for axes in (rate, memory, disk, latency):
        axes.set_xlabel("million documents")
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, loc="best")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Grow a state to many synthetic documents and measure it.")
    parser.add_argument("--documents", type=int, default=5_000_000)
    parser.add_argument("--chunk", type=int, default=50_000, help="documents per sample")
    parser.add_argument("--data-dir", type=Path, default=ROOT / "var" / "bench-scale")
    parser.add_argument("--no-texts", action="store_true", help="store no texts, so that find ranks by sketches")
    parser.add_argument("--fresh", action="store_true", help="delete the state and the samples of an earlier run")
    args = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:  # report this now, not after an hour
        parser.error("the plot needs matplotlib: `make bench-scale` installs it")
    if args.fresh:
        shutil.rmtree(args.data_dir, ignore_errors=True)
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    growth = Growth(
        args.data_dir, args.documents, args.chunk, one_process_settings({"keep_texts": not args.no_texts})
    )
    growth.grow()
    growth.store.close()
    plot(growth.samples, FOLDER / "scale.png")
    with (FOLDER / "scale.txt").open("w") as file:
        Console(file=file, width=120).print(report(growth.samples))
    Console().print(report(growth.samples))
    print(f"plot: {FOLDER / 'scale.png'}", file=sys.stderr)


if __name__ == "__main__":
    main()
