"""Workers on a real broker export the same rows as the embedded engine."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from state.store import Store
from streams.engine.ingest import ingest
from streams.export.data_set import read_manifest
from streams.settings import load
from tests.samples import jsonl
from tests.streams.export.expected_rows import expected_rows, exported_rows, site

Rows = dict[tuple[str, str | None], set[tuple[Any, ...]]]
SWEEPS = ("first", "second", "third")


@pytest.fixture
def crawls(tmp_path: Path) -> dict[str, Path]:
    return {
        name: jsonl(tmp_path / f"{name}.jsonl", site(random.Random(number), number, 60))
        for number, name in enumerate(SWEEPS, 1)
    }


SWEEP_COLUMNS = {"captures": 5, "hosts": 2}


def rows_by_sweep_name(rows: dict[tuple[str, int | None], set[Any]], names: dict[int, str]) -> Rows:
    """Replace the numbers of sweeps by their names, because the engines may number them differently."""

    def rename(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
        column = SWEEP_COLUMNS.get(table)
        return row if column is None else (*row[:column], names[row[column]], *row[column + 1 :])

    return {
        (table, names[sweep] if sweep else None): {rename(table, row) for row in values}
        for (table, sweep), values in rows.items()
    }


def exported(folder: Path) -> Rows:
    manifest = read_manifest(folder)
    assert manifest is not None
    return rows_by_sweep_name(exported_rows(folder), {sweep.number: sweep.name for sweep in manifest.sweeps})


def test_workers_export_the_rows_of_the_embedded_engine(
    make_collection: Callable[..., Any], crawls: dict[str, Path], tmp_path: Path
) -> None:
    collection = make_collection(3)
    exports = tmp_path / "exports"
    setting = f'\n[kafka]\nexport_folder = "{exports}"\n'
    collection.config.write_text(collection.config.read_text().replace("\n[kafka]\n", setting))
    urls = collection.serve_all(["first", "second"])
    names = dict(enumerate(SWEEPS, 1))

    def export(url: str, *options: str) -> set[tuple[str, str | None]]:
        lines = collection.run("export", exports / "all", "--server", url, "--json", *options).splitlines()
        return {(row["table"], row["sweep"]) for row in map(json.loads, lines) if row["written"]}

    with Store(tmp_path / "embedded") as store:
        for count, (name, path) in enumerate(crawls.items(), 1):
            ingest(store, load(collection.config), [str(path)], name, now=1_000)
            collection("publish", path, "--sweep", name)
            collection.wait_until_committed(urls[0], count)
            if count == 1:
                continue  # the first export has two sweeps, and the second one adds the third
            written = export(urls[count % 2])
            assert exported(exports / "all") == rows_by_sweep_name(expected_rows(store), names)
            assert ("captures", name) in written
            assert (("captures", SWEEPS[0]) in written) is (count == 2)
    parts = {path.name for path in exports.rglob("*.parquet")}
    assert parts == {f"part-{number:05}.parquet" for number in range(3)}
    collection.run("sweep", "cancel", "first", "--server", urls[0])
    export(urls[1])
    assert {sweep for _, sweep in exported(exports / "all")} == {"second", "third", None}
