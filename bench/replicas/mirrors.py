"""Measure how well `mirrors` finds hosts whose mirrors are known, compared with the paper's features.

    python -m bench.replicas.mirrors FOLDER [--seeds 2] [--unrelated 400]

FOLDER keeps the downloaded packages and the ingested states. Each seed replicates about 40 real manuals (see
`mirror_truth.py`) and is measured twice: complete, and with 10 to 50 % of each host's captures missing.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow.parquet as pq

from bench.replicas import debian_docs, javadocs
from bench.replicas.mirror_truth import Truth, build
from state import meta
from state.store import Store
from streams import settings as settings_module
from streams.analyses.current_pages import create_pages
from streams.analyses.mirrors import METHODS, Mirror, compute
from streams.analyses.sql_engine import DuckDb
from streams.engine.ingest import ingest
from streams.export.duckdb_connection import SqlLimits
from streams.export.run_export import export_state
from streams.export.schema import MANIFEST_FILE
from streams.settings import Settings

MISSING = ((0.0, 0.0), (0.1, 0.5))
NOW = 1_700_000_000_000
_CLOSE = frozenset("123")
_COLUMNS = (
    "| missing | method | proposed: precision | recall | mirrors: precision | recall | 1-3 | exact level | copies |"
)


class Score(NamedTuple):
    """The figures of one run. All but the last are shares."""

    proposed_precision: float  # of the pairs of stage I, those of one family
    proposed_recall: float
    precision: float  # of the reported mirrors, those of one family
    recall: float
    close_recall: float  # of the pairs at levels 1 to 3, those that were reported at these levels
    exact: float  # of the tested pairs, those with the right level
    connected_copies: int


def score(mirrors: Sequence[Mirror], truth: Truth) -> Score:
    family = {host.name: host.family for host in truth.hosts}
    level = {mirror.hosts: mirror.level for mirror in mirrors}
    expected = {(min(pair), max(pair)): value for pair, value in truth.levels.items()}
    reported = [mirror.hosts for mirror in mirrors if mirror.is_mirror]
    close = [pair for pair, value in expected.items() if value in _CLOSE]
    tested = [pair for pair in expected if level.get(pair, "untested") != "untested"]
    return Score(
        proposed_precision=_share(family[a] == family[b] for a, b in level),
        proposed_recall=_share(pair in level for pair in expected),
        precision=_share(family[a] == family[b] for a, b in reported),
        recall=_share(pair in set(reported) for pair in expected),
        close_recall=_share(level.get(pair) in _CLOSE for pair in close),
        exact=_share(level[pair] == expected[pair] for pair in tested),
        connected_copies=_largest_group(mirrors, set(truth.copies)),
    )


def _share(values: Iterable[bool]) -> float:
    return float(np.mean(list(values) or [False]))


def _largest_group(mirrors: Iterable[Mirror], hosts: set[str]) -> int:
    groups: dict[str | None, set[str]] = {None: set()}
    for mirror in mirrors:
        if mirror.group is not None:
            groups.setdefault(mirror.group, set()).update(mirror.hosts)
    return max(len(group & hosts) for group in groups.values())


def write_pages(truth: Truth, path: Path) -> None:
    with path.open("wb") as lines:
        for host in truth.hosts:
            for page, html in host.pages.items():
                content = {"html": html} if html else {"status": 404}
                url = f"https://{host.name}/{page}"
                lines.write(msgspec.json.encode({"url": url, "fetched_at": NOW // 1000, **content}) + b"\n")


def create_data_set(truth: Truth, folder: Path, settings: Settings) -> Path:
    """Ingest the pages and export them, unless `folder` contains the export already."""
    data_set = folder / "export"
    if (data_set / MANIFEST_FILE).exists():
        return data_set
    folder.mkdir(parents=True, exist_ok=True)
    pages = folder / "pages.jsonl"
    write_pages(truth, pages)
    with Store(folder / "state", settings.store, create_if_missing=True) as store:
        meta.claim_scheme(store, settings.scheme)
        ingest(store, settings, [str(pages)], "1", now=NOW)
        export_state(store, data_set, SqlLimits(memory_mib=1024, threads=2))
    pages.unlink()
    return data_set


def drop_captures(data_set: Path, target: Path, missing: tuple[float, float], seed: int) -> None:
    """Copy a data set without a random share of each host's captures, between the two values of `missing`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(data_set, target)
    rng = np.random.default_rng(seed)
    share_of_host: dict[int, float] = {}
    for file in sorted((target / "captures").glob("*/*.parquet")):
        captures = pq.read_table(file)
        hosts = captures.column("host").to_pylist()
        shares = [share_of_host.setdefault(host, rng.uniform(*missing)) for host in hosts]
        pq.write_table(captures.filter(rng.random(len(hosts)) >= np.array(shares)), file)


def measure(data_set: Path, truth: Truth, settings: Settings) -> dict[str, Score]:
    scores = {}
    for method in METHODS:
        with DuckDb(data_set, memory_mib=1024, threads=2) as engine:
            create_pages(engine, 1)
            scores[method] = score(compute(engine, settings.analyses, method), truth)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how well `mirrors` finds known mirrors.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--unrelated", type=int, default=400)
    arguments = parser.parse_args()
    folder, settings = arguments.folder, settings_module.load()
    debian_docs.download(folder / "debs")
    javadocs.download(folder / "jars")
    print(_COLUMNS + "\n" + "|---" * 9 + "|")
    for seed in range(arguments.seeds):
        truth = build(folder, seed, arguments.unrelated)
        data_set = create_data_set(truth, folder / f"seed-{seed}", settings)
        for missing in MISSING:
            drop_captures(data_set, folder / "incomplete", missing, random.Random(seed).randrange(1 << 30))
            for method, figures in measure(folder / "incomplete", truth, settings).items():
                shares = " | ".join(f"{share:.3f}" for share in figures[:-1])
                print(
                    f"| {missing[0]:.0%}-{missing[1]:.0%} | {method} | {shares} | {figures.connected_copies} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
