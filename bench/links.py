"""Measure what links cost: bytes on disk per distinct link, and CPU per page compared with a state without links.

    python -m bench.links [PATH...]     crawl files, one sweep each, instead of synthetic pages

Links are distinct by source and target. Sizes are those after compaction, as in a state that has grown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from bench.engine import ingest_file, one_process_settings, temporary_folder, warm_up, write_pages
from bench.measure import Stopwatch, in_child
from state.codecs import link_chunk
from state.families import Family
from state.store import Store

FAMILIES = (Family.LINK_LISTS, Family.LINK_CHUNKS, Family.LINK_TARGETS)
CHOICES = ("off", "targets", "anchors")


def ingest_with_links(keep_links: str, documents: int, paths: list[str]) -> dict[str, Any]:
    """Ingest pages with the setting `policy.keep_links`, and return CPU time, links and bytes."""
    settings = one_process_settings({"keep_links": keep_links})
    with temporary_folder() as folder:
        warm_up(folder, settings, documents, html=True)
        files = [Path(path) for path in paths] or [write_pages(folder / "pages.jsonl", documents, html=True)]
        watch, pages = Stopwatch(), 0
        for number, path in enumerate(files):  # each sweep opens the state, as the command does
            with watch.running(), Store(folder / "state", settings.store) as store:
                pages += ingest_file(store, settings, path, f"sweep {number}").pages
        with Store(folder / "state", settings.store) as store:
            for family in FAMILIES:
                store.compact(family)
        with Store(folder / "state", settings.store) as store:
            return {
                "cpu_us_per_page": watch.cpu_seconds / pages * 1e6,
                "links": _count_links(store),
                "bytes": {family: store.bytes_on_disk(family) for family in FAMILIES},
            }


def _count_links(store: Store) -> int:
    """Return the number of distinct pairs of source and target."""
    links: set[tuple[bytes, bytes]] = set()
    targets: list[bytes] = []
    for key, value in store.scan(Family.LINK_CHUNKS):
        if len(key) == link_chunk.CHUNK_ID_BYTES:
            targets = [link.target for link in link_chunk.decode(value)]
        else:
            links.update((key[link_chunk.CHUNK_ID_BYTES :], target) for target in targets)
    return len(links)


def measure(documents: int = 2_000, paths: list[str] | None = None, rounds: int = 3) -> dict[str, dict[str, float]]:
    """Return, for each setting with links, the bytes per link and the median ratio of CPU to that without links.

    The settings alternate, so that a changing load affects them alike.
    """
    runs: dict[str, list[dict[str, Any]]] = {choice: [] for choice in CHOICES}
    for _ in range(rounds):
        for choice in CHOICES:
            figures = in_child(
                "bench.links:ingest_with_links", keep_links=choice, documents=documents, paths=paths or []
            )
            runs[choice].append(figures)
    without = [run["cpu_us_per_page"] for run in runs["off"]]
    return {
        choice: {
            "bytes_per_link": sum(runs[choice][0]["bytes"].values()) / runs[choice][0]["links"],
            "cpu_ratio": median(
                run["cpu_us_per_page"] / base for run, base in zip(runs[choice], without, strict=True)
            ),
            "cpu_us_per_page": median(run["cpu_us_per_page"] for run in runs[choice]),
            "links": runs[choice][0]["links"],
        }
        for choice in CHOICES[1:]
    }


if __name__ == "__main__":
    for name, figures in measure(paths=[str(Path(path).resolve()) for path in sys.argv[1:]]).items():
        print(name, json.dumps({key: round(value, 3) for key, value in figures.items()}))
