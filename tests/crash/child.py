"""A process that tests kill: an ingest, a cancellation or the forgetting of a URL.

python -m tests.crash.child ingest STATE SWEEP WORKERS PATH... | cancel STATE SWEEP | forget STATE URL
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from state import sweeps
from state.store import Store
from streams.engine.ingest import Progress, ingest
from streams.forgetting import cancel_sweep, commit_removals, detachment, forget_url, removal
from streams.urls import url_key
from tests.samples import NOW, settings


def print_progress(progress: Progress) -> None:
    print(progress.cursor.pages, flush=True)


def ingest_paths(folder: str, sweep: str, workers: str, *paths: str) -> None:
    small_batches = settings({"ingest": {"workers": int(workers), "workers_from_bytes": 0, "batch_pages": 16}})
    with Store(Path(folder), small_batches.store) as store:
        print("ready", flush=True)
        ingest(store, small_batches, paths, sweep, now=NOW, report_progress=print_progress)
    print("done", flush=True)


def limit_commits() -> None:
    """Detach documents in many commits."""
    detachment._EDGES_PER_COMMIT = 16
    detachment._MEMBERS_PER_COMMIT = 8


def cancel(folder: str, sweep: str) -> None:
    removal.CAPTURES_PER_REMOVAL = 8
    limit_commits()
    with Store(Path(folder)) as store:
        print("ready", flush=True)
        target = sweeps.named(store, sweep)
        if target is not None:
            commit_removals(
                cancel_sweep(store, target), partial(store.write, sync=True), lambda _: print("removed", flush=True)
            )
    print("done", flush=True)


def forget(folder: str, url: str) -> None:
    removal.CAPTURES_PER_REMOVAL = 8
    limit_commits()
    with Store(Path(folder)) as store:
        print("ready", flush=True)
        commit_removals(
            forget_url(store, url_key(url)), partial(store.write, sync=True), lambda _: print("removed", flush=True)
        )
    print("done", flush=True)


if __name__ == "__main__":
    steps: dict[str, Callable[..., None]] = {"ingest": ingest_paths, "cancel": cancel, "forget": forget}
    steps[sys.argv[1]](*sys.argv[2:])
