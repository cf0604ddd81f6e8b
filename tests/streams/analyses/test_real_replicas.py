"""Releases of real manuals that lie side by side are found as replicas where most of their pages resemble."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from state.store import Store
from streams.analyses.current_pages import create_pages
from streams.analyses.replicas import METHODS, compute
from streams.analyses.sql_engine import DuckDb
from streams.engine.ingest import ingest
from streams.export.duckdb_connection import SqlLimits
from streams.export.run_export import export_state
from tests.samples import NOW, settings

ROOTS = {"ipython": "https://ipython.org/ipython-doc/", "hatch": "https://hatch.pypa.io/"}
RESEMBLING_MIN = 0.75  # of the pages of the larger tree, by exact resemblance
Pair = tuple[str, str]


def resembling_shares(folder: Path, root: str) -> dict[Pair, float]:
    """Return the share of resembling pages for each pair of trees in the truth file."""
    with (folder / "replica_truth.tsv").open(encoding="utf-8") as file:
        return {
            (f"{root}{row['tree_a']}/", f"{root}{row['tree_b']}/"): int(row["resemblance_ge_.5"])
            / max(int(row["pages_a"]), int(row["pages_b"]))
            for row in csv.DictReader(file, delimiter="\t")
        }


@pytest.mark.parametrize("name", list(ROOTS))
def test_releases_of_a_manual(shared_data: Path, tmp_path: Path, name: str) -> None:
    folder = shared_data / "replicas" / name
    options = settings({"policy": {"keep_links": "off", "index_find": False, "keep_texts": False}})
    with Store(tmp_path / "state", options.store) as store:
        ingest(store, options, [str(folder / "pages.jsonl.zst")], "crawl", now=NOW)
        export_state(store, tmp_path / "export", SqlLimits(512, 1))
    reported = {}
    for method in METHODS:
        with DuckDb(tmp_path / "export", memory_mib=512, threads=1) as engine:
            create_pages(engine, 1)
            reported[method] = {(replica.a, replica.b) for replica in compute(engine, options.analyses, method)}
    shares = resembling_shares(folder, ROOTS[name])
    expected = {tuple(sorted(pair)) for pair, share in shares.items() if share >= RESEMBLING_MIN}
    trees = {tuple(sorted(pair)) for pair in shares}
    hits = reported["names"] & expected
    assert len(hits) >= 0.95 * len(expected)
    assert len(hits) >= 0.95 * len(reported["names"] & trees)
    assert len(reported["zhang"] & expected) < len(hits), "few of these trees have index pages that resemble"
