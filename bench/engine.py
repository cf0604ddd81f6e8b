"""Measure the embedded engine. `bench.measure` runs each function in a fresh process.

All functions call `streams.engine.ingest.ingest`, as the command does: JSONL is read, sketched, looked up, verified,
joined and committed. No worker processes are used, so the figures contain the whole cost of a document.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import ROOT, Stopwatch, memory_mib
from state.malloc_tuning import tune_malloc
from state.store import Store
from streams import settings as settings_module
from streams.engine.ingest import Summary, ingest
from streams.settings import Settings

FETCHED = 1_767_225_600_000  # 2026-01-01T00:00:00Z in ms, when all sweeps open
CLUSTERS_ONLY = {"keep_texts": False, "index_find": False, "keep_links": "off"}


def write_pages(path: Path, documents: int, **options: Any) -> Path:
    """Write synthetic pages as JSONL, in another process, so that this process only has the engine's memory."""
    command = [sys.executable, "-m", "bench.generator", "--documents", str(documents)]
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        command += [flag] if value is True else [] if value is False else [flag, str(value)]
    with path.open("wb") as out:
        subprocess.run(command, cwd=ROOT, stdout=out, check=True)
    return path


def one_process_settings(policy: dict[str, Any] | None = None, store: dict[str, Any] | None = None) -> Settings:
    """Return the default settings without worker processes."""
    return settings_module.load(overrides={"ingest": {"workers": 1}, "policy": policy or {}, "store": store or {}})


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a temporary folder and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lostfound-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def ingest_file(store: Store, settings: Settings, path: Path, sweep: str) -> Summary:
    """Ingest one file into a sweep."""
    return ingest(store, settings, [str(path)], sweep, now=FETCHED)


def warm_up(folder: Path, settings: Settings, documents: int = 300, *, html: bool = False) -> None:
    """Tune the allocator as the command does, then load and compile everything once, with a separate state."""
    tune_malloc()
    pages = write_pages(folder / "warm.jsonl", min(documents, 300), start=900_000_000, near_share=0.5, html=html)
    with Store(folder / "warm", settings.store) as store:
        ingest_file(store, settings, pages, "warm")
        ingest_file(store, settings, pages, "warm again")


def clusters(
    documents: int, shape: dict[str, Any], policy: dict[str, Any] | None = None, *, sweeps: int = 1
) -> dict[str, Any]:
    """Turn pages into verified, persisted clusters. Each further sweep fetches the same pages again.

    The total includes the time to close the store. The figures of each sweep are in `sweeps`.
    """
    settings = one_process_settings(policy)
    with temporary_folder() as folder:
        warm_up(folder, settings)
        files = [write_pages(folder / f"{n}.jsonl", documents, sweep=n, **shape) for n in range(sweeps)]
        total, per_sweep, rss_before, near = Stopwatch(), [], memory_mib(), 0
        store = Store(folder / "state", settings.store)
        for n, path in enumerate(files):
            watch = Stopwatch()
            with total.running(), watch.running():
                summary = ingest_file(store, settings, path, f"sweep {n}")
            near += summary.near_duplicates
            per_sweep.append({**watch.figures(documents), "new": summary.new, "unchanged": summary.unchanged})
        with total.running():
            store.close()
        return {
            **total.figures(documents * sweeps),
            "rss_grown_mib": memory_mib() - rss_before,
            "near": near,
            "sweeps": per_sweep,
        }


def ingest_files(paths: list[str], policy: dict[str, Any] | None = None) -> dict[str, Any]:
    """Turn crawl files into clusters, one sweep per file."""
    settings = one_process_settings(policy)
    with temporary_folder() as folder:
        warm_up(folder, settings)
        watch, pages = Stopwatch(), 0
        store = Store(folder / "state", settings.store)
        with watch.running():
            for path in paths:
                pages += ingest_file(store, settings, Path(path), Path(path).name).pages
            store.close()
        return watch.figures(pages)


def html_pages(documents: int, shape: dict[str, Any], policy: dict[str, Any] | None = None) -> dict[str, Any]:
    """Turn HTML pages into clusters, and time the HTML parser alone on the same bodies."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    settings = one_process_settings(policy)
    with temporary_folder() as folder:
        warm_up(folder, settings, documents, html=True)
        path = write_pages(folder / "pages.jsonl", documents, html=True, **shape)
        watch, parser, reader = Stopwatch(), Stopwatch(), Stopwatch()
        store = Store(folder / "state", settings.store)
        with watch.running():
            ingest_file(store, settings, path, "sweep")
            store.close()
        with reader.running():
            bodies = list(_bodies(path))
        with parser.running():
            for body in bodies:
                extract_plain_text(HTMLTree.parse(body.decode()), list_bullets=False)
        return {
            **watch.figures(documents),
            "parser": parser.figures(documents),
            "reader": reader.figures(documents),
            "page_bytes": sum(map(len, bodies)) // documents,
        }


def _bodies(path: Path) -> Iterator[bytes]:
    from streams.page import Page
    from streams.readers.dispatch import read
    from streams.readers.read_limits import ReadLimits

    for _, item in read([str(path)], ReadLimits()):
        if isinstance(item, Page) and item.body is not None:
            yield item.body


def profile(documents: int, shape: dict[str, Any] | None = None, **policy: Any) -> None:
    """Print the time per function of the work that `clusters` measures."""
    import cProfile
    import pstats

    settings = one_process_settings(policy)
    with temporary_folder() as folder:
        warm_up(folder, settings)
        path = write_pages(folder / "pages.jsonl", documents, **(shape or {}))
        with Store(folder / "state", settings.store) as store:
            started = time.perf_counter()
            profiler = cProfile.Profile()
            profiler.runcall(ingest_file, store, settings, path, "sweep")
            print(f"{(time.perf_counter() - started) / documents * 1e6:.1f} µs per document, profiler included")
            pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    profile(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
