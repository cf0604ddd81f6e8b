"""Workers on a real broker export the rows of the embedded engine, and publish its results of analyses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from state.store import Store
from state.view import View
from streams.analyses.analysis_session import Progress
from streams.analyses.at_commit import compute_at_commit
from streams.engine.ingest import ingest
from streams.export.data_set import read_manifest
from streams.settings import Settings, load
from tests.broker.results import read
from tests.broker.test_worker import wait_for
from tests.samples import Line, jsonl
from tests.streams.export.expected_rows import HOSTS, expected_rows, exported_rows, site

Rows = dict[tuple[str, str | None], set[tuple[Any, ...]]]
SWEEPS = ("first", "second", "third")


@pytest.fixture
def crawls(tmp_path: Path) -> dict[str, Path]:
    sites = {name: site(random.Random(number), number, 60) for number, name in enumerate(SWEEPS, 1)}
    return {name: jsonl(tmp_path / f"{name}.jsonl", [*lines, *mirror(lines)]) for name, lines in sites.items()}


def mirror(lines: list[Line]) -> list[Line]:
    """Return the pages of the first host as pages of a mirror."""
    on_host = [json.dumps(line) for line in lines if urlsplit(line["url"]).hostname == HOSTS[0]]
    return [json.loads(line.replace(f"//{HOSTS[0]}/", "//mirror.example/")) for line in on_host]


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


def published_mirrors(collection: Any, sweep: str) -> list[dict[str, Any]]:
    """Wait until the mirrors of a sweep are published, and return them in order."""
    mirrors: dict[int, dict[str, Any]] = {}

    def are_complete() -> bool:
        messages = [message for _, message in read(collection, "analyses") if message["sweep"] == sweep]
        assert all(message["analysis"] == "mirrors" for message in messages)
        mirrors.update((message["number"], message["result"]) for message in messages)
        return bool(messages) and len(mirrors) == messages[0]["results"]

    wait_for(are_complete, 240)  # the workers may have to compile the functions of the export
    return [mirrors[number] for number in range(len(mirrors))]


def stored_mirrors(folder: Path, settings: Settings, sweep: str) -> list[dict[str, Any]]:
    """Return the mirrors that the embedded engine stores when a sweep is committed."""
    compute_at_commit(folder, settings, sweep, Progress())
    with Store(folder, writable=False) as store:
        return list(map(json.loads, View(store).newest_results("mirrors", "samples")))


def test_workers_export_the_rows_and_publish_the_mirrors_of_the_embedded_engine(
    make_collection: Callable[..., Any], crawls: dict[str, Path], tmp_path: Path
) -> None:
    collection = make_collection(3)
    exports, folder = tmp_path / "exports", tmp_path / "embedded"
    kafka = f'\n[kafka]\nexport_folder = "{exports}"\nresults = ["analyses"]\n'
    config = collection.config.read_text().replace("\n[kafka]\n", kafka)
    collection.config.write_text(f'{config}\n[analyses]\nat_commit = ["mirrors"]\n')
    settings = load(collection.config)
    urls = collection.serve_all(["first", "second"])
    names = dict(enumerate(SWEEPS, 1))

    def export(url: str, *options: str) -> set[tuple[str, str | None]]:
        lines = collection.run("export", exports / "all", "--server", url, "--json", *options).splitlines()
        return {(row["table"], row["sweep"]) for row in map(json.loads, lines) if row["written"]}

    for count, (name, path) in enumerate(crawls.items(), 1):
        with Store(folder) as store:
            ingest(store, settings, [str(path)], name, now=1_000)
        collection("publish", path, "--sweep", name)
        collection.wait_until_committed(urls[0], count)
        mirrors = published_mirrors(collection, name)
        assert mirrors == stored_mirrors(folder, settings, name)
        assert [pair["hosts"] for pair in mirrors if pair["level"] == "2"] == [[HOSTS[0], "mirror.example"]]
        if count == 1:
            continue  # the first export has two sweeps, and the second one adds the third
        written = export(urls[count % 2])
        with Store(folder, writable=False) as store:
            assert exported(exports / "all") == rows_by_sweep_name(expected_rows(store), names)
        assert ("captures", name) in written
        assert (("captures", SWEEPS[0]) in written) is (count == 2)
    parts = {path.name for path in exports.rglob("*.parquet")}
    assert parts == {f"part-{number:05}.parquet" for number in range(3)}
    collection.run("sweep", "cancel", "first", "--server", urls[0])
    export(urls[1])
    assert {sweep for _, sweep in exported(exports / "all")} == {"second", "third", None}
