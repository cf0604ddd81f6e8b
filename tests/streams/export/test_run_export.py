"""An export contains exactly the rows of the state, also after the state has changed, and replaces files at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from state import sweeps
from state.store import Store
from state.view import View
from streams import forgetting
from streams.analyses.sql_engine import DuckDb
from streams.errors import InputError, StateError
from streams.export import data_set, partition_export
from streams.export.data_set import read_manifest
from streams.export.duckdb_connection import SqlLimits, connect
from streams.export.run_export import ExportedTable, export_state
from streams.export.schema import CLUSTERS
from streams.urls import url_key
from tests.samples import begin_cancel, take
from tests.streams.export.expected_rows import expected_rows, exported_rows, site

LIMITS = SqlLimits(memory_mib=256, threads=1)


@pytest.fixture
def ingested(store: Store, tmp_path: Path) -> Store:
    for sweep in (1, 2, 3):
        take(store, tmp_path / f"{sweep}.jsonl", site(random.Random(sweep), sweep), f"sweep {sweep}")
    return store


def export(store: Store, folder: Path, **options: Any) -> list[ExportedTable]:
    return export_state(store, folder, LIMITS, **options)


def written(tables: list[ExportedTable]) -> set[tuple[str, str | None]]:
    return {(table.table, table.sweep) for table in tables if table.written}


def forget(store: Store, url: str) -> None:
    forgetting.commit_removals(forgetting.forget_url(store, url_key(url)), store.write)


def cancel(store: Store, name: str) -> None:
    sweep = sweeps.named(store, name)
    assert sweep is not None
    forgetting.commit_removals(forgetting.cancel_sweep(store, sweep), store.write)


def test_an_export_contains_the_rows_of_the_state(ingested: Store, tmp_path: Path) -> None:
    tables = export(ingested, tmp_path / "export")
    rows = exported_rows(tmp_path / "export")
    assert rows == expected_rows(ingested)
    assert {key[0] for key in rows} == {"captures", "documents", "links", "clusters", "hosts"}
    numbers = {sweep.name: sweep.number for sweep in View(ingested).sweeps()}
    counts = {(t.table, numbers[t.sweep] if t.sweep else None): t.rows for t in tables if t.rows}
    assert counts == {key: len(values) for key, values in rows.items()}


def test_an_empty_state_can_be_exported(store: Store, tmp_path: Path) -> None:
    export(store, tmp_path / "export")
    with DuckDb(tmp_path / "export", memory_mib=256, threads=1) as engine:
        assert engine.rows("SELECT count(*) FROM captures") == [(0,)]


def test_only_new_sweeps_are_written(ingested: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export(ingested, folder)
    assert not {table for table, sweep in written(export(ingested, folder)) if sweep}
    take(ingested, tmp_path / "4.jsonl", site(random.Random(4), 4), "sweep 4")
    assert {sweep for _, sweep in written(export(ingested, folder))} == {"sweep 4", None}
    assert exported_rows(folder) == expected_rows(ingested)


def test_nothing_is_read_if_the_state_has_not_changed(ingested: Store, tmp_path: Path) -> None:
    read: list[int] = []

    def again() -> list[ExportedTable]:
        read.clear()
        return export(ingested, tmp_path / "export", state_version=ingested.version(), on_rows=read.append)

    again()
    assert read
    assert not written(again())
    assert not read
    forget(ingested, "http://a.example/dir0/0/index.html")
    assert written(again())


@pytest.mark.parametrize(
    "change",
    [
        lambda store, _: forget(store, "https://b.example/dir1/1"),
        lambda store, _: cancel(store, "sweep 1"),
        lambda store, _: cancel(store, "sweep 3"),
        lambda store, _: begin_cancel(store, View(store).sweeps()[1]),
        lambda store, path: take(store, path / "early.jsonl", site(random.Random(1), 0), "early"),
    ],
    ids=["forget", "cancel the first sweep", "cancel the last sweep", "begin to cancel", "earlier captures"],
)
def test_an_export_follows_changes(ingested: Store, tmp_path: Path, change: Callable[[Store, Path], object]) -> None:
    folder = tmp_path / "export"
    export(ingested, folder)
    change(ingested, tmp_path)
    tables = export(ingested, folder)
    assert exported_rows(folder) == expected_rows(ingested)
    assert written(tables)
    assert not (folder / "export.tmp").exists()


def test_an_open_sweep_is_exported_as_far_as_it_is(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    for pages in (10, 24):
        take(store, tmp_path / f"{pages}.jsonl", site(random.Random(1), 1, pages), "open", keep_open=True)
        export(store, folder)
        assert exported_rows(folder) == expected_rows(store)
    manifest = read_manifest(folder)
    assert manifest is not None
    assert [sweep.committed for sweep in manifest.sweeps] == [False]


def test_named_sweeps_are_added(ingested: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    for name in ("sweep 3", "sweep 1"):
        export(ingested, folder, sweep_names=[name])
        names = {"sweep 3"} | {name}
        assert exported_rows(folder) == expected_rows(ingested, names)
    with pytest.raises(InputError, match="sweep 'nix' does not exist"):
        export(ingested, folder, sweep_names=["nix"])


def test_many_sweeps_are_written_in_several_passes(
    ingested: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_export, "_SWEEPS_PER_PASS", 1)
    monkeypatch.setattr(partition_export, "_LINKS_PER_BATCH", 2)
    monkeypatch.setattr(partition_export, "_RESULT_ROWS_PER_BATCH", 3)
    export(ingested, tmp_path / "export")
    assert exported_rows(tmp_path / "export") == expected_rows(ingested)


def test_roots_are_found_through_long_chains_and_despite_cycles(tmp_path: Path) -> None:
    parents = {document: document - 1 for document in range(-40, 60) if document != -40} | {100: 101, 101: 100}
    table = pa.table({"document": list(parents), "cluster": list(parents.values())}, CLUSTERS)
    pq.write_table(table, tmp_path / "parents.parquet")
    with connect(LIMITS) as connection:
        partition_export._create_roots(connection, [tmp_path / "parents.parquet"])
        roots = dict(connection.execute("SELECT * FROM roots").fetchall())
    assert {document: root for document, root in roots.items() if document < 100} == dict.fromkeys(
        range(-39, 60), -40
    )
    assert {roots[100], roots[101]} <= {100, 101}


class _Stopped(Exception):
    """Interrupts an export."""


def test_an_interrupted_export_is_repaired(ingested: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export(ingested, folder, sweep_names=["sweep 1"])
    before = exported_rows(folder)

    def stop(_: int) -> None:
        raise _Stopped

    with pytest.raises(_Stopped):
        export(ingested, folder, on_rows=stop)
    assert exported_rows(folder) == before
    export(ingested, folder)
    assert exported_rows(folder) == expected_rows(ingested)


def test_a_commit_that_stopped_half_way_is_repaired(
    ingested: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "export"
    export(ingested, folder)
    forget(ingested, "https://b.example/dir1/1")
    cancel(ingested, "sweep 2")
    replace, calls = Path.replace, 0

    def stop(path: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise _Stopped
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stop)
        with pytest.raises(_Stopped):
            export(ingested, folder)
    with pytest.raises(InputError, match="no export in"):
        DuckDb(folder, memory_mib=256, threads=1)
    export(ingested, folder)
    assert exported_rows(folder) == expected_rows(ingested)


@pytest.mark.parametrize("content", [None, b"junk"])
def test_damaged_files_are_reported_and_written_again(ingested: Store, tmp_path: Path, content: bytes | None) -> None:
    folder = tmp_path / "export"
    export(ingested, folder, state_version="1")
    for pattern in ("captures/00000001/*.parquet", "clusters/*.parquet"):
        (path,) = folder.glob(pattern)
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    if content is not None:
        with (
            pytest.raises(StateError, match="cannot read or write a file"),
            DuckDb(folder, memory_mib=256, threads=1),
        ):
            pass
    export(ingested, folder, state_version="1")
    assert exported_rows(folder) == expected_rows(ingested)


def test_an_export_waits_for_readers(ingested: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export(ingested, folder)
    forget(ingested, "https://b.example/dir1/1")
    engine = DuckDb(folder, memory_mib=256, threads=1)
    (count,) = engine.rows("SELECT count(*) FROM captures")
    waited = []

    def stop_reading() -> None:
        waited.append(engine.rows("SELECT count(*) FROM captures"))
        engine.close()

    export(ingested, folder, on_wait=stop_reading)
    assert waited == [[count]]
    assert exported_rows(folder) == expected_rows(ingested)


def test_two_exports_do_not_write_to_the_same_folder(ingested: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    with data_set.prepare_export(folder), pytest.raises(InputError, match="another export is writing"):
        export(ingested, folder)


def test_other_files_are_not_touched(ingested: Store, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    own_file = folder / "documents" / "part-00000.parquet"
    own_file.parent.mkdir(parents=True)
    own_file.write_text("mine")
    with pytest.raises(InputError, match="contains files, but no export"):
        export(ingested, folder)
    assert own_file.read_text() == "mine"


def test_the_query_in_the_documentation_runs(
    ingested: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export(ingested, tmp_path / "exported")
    text = (Path(__file__).parents[3] / "docs" / "formats-export.md").read_text()
    code = text.split("```python\n", 1)[1].split("```", 1)[0]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert "cluster" in capsys.readouterr().out
