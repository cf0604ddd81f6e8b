"""`lostfound changes`, and what all analyses share: the cached export and stored results."""

from __future__ import annotations

import builtins
import fcntl
import os
import threading
import time
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from state.codecs import analysis_row
from state.families import Family
from state.store import Store
from streams.analyses import export_cache
from streams.analyses.at_commit import default_analysis
from streams.settings import AnalysisSettings
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

PNG = b"\x89PNG\r\n"


def has_results(folder: Path) -> bool:
    with Store(folder, writable=False) as store:
        return any(True for _ in store.scan(Family.ANALYSES))


def test_changes_of_each_host_from_sweep_to_sweep(lostfound: Lostfound, sample_state: Path) -> None:
    first, second = lostfound("changes", "--json").rows
    assert (first["host"], first["previous"], first["sweep"]) == ("www.windvane.example", *SWEEPS[:2])
    assert (second["pages"], second["unchanged"], second["changed"]) == (13, 12, 1)
    assert (first["new"], first["vanished"]) == (3, 3)
    assert lostfound("changes", "--host", "WWW.windvane.example:443", "--json").rows == []
    assert lostfound("changes", "--host", "WWW.windvane.example", "--json").rows == [first, second]
    assert lostfound("changes", "--sweep", SWEEPS[1], "--json").rows == [first]
    table = lostfound("changes").out.splitlines()
    assert len(table) == 3
    assert "4,395.2" in table[2]


def test_changes_of_a_page(lostfound: Lostfound, sample_state: Path) -> None:
    first, second = lostfound("changes", "--url", f"{SITE}/", "--json").rows
    assert (first["url"], first["changed"], second["unchanged"]) == (f"{SITE}/", 1, 1)
    result = lostfound("changes", "--url", f"{SITE}/nix")
    assert (result.code, result.out) == (1, "")
    assert "no page was captured in two consecutive sweeps" in result.err


def test_a_plot_is_written(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    assert lostfound("changes", "--plot", plot).code == 0
    assert plot.read_bytes().startswith(PNG)
    assert lostfound("changes", "--url", f"{SITE}/", "--plot", plot, "--json").code == 0
    result = lostfound("changes", "--plot", tmp_path / "absent" / "plot.png")
    assert (result.code, "cannot write" in result.err) == (2, True)


def test_without_matplotlib_a_plot_names_the_extra(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_module = builtins.__import__

    def without_matplotlib(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return import_module(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    result = lostfound("changes", "--plot", tmp_path / "plot.png")
    assert result.code == 2
    assert "pip install 'lostfound[plot]'" in result.err


def test_bad_options_are_refused(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
    for options in (["--sweep", "nix"], ["--from", tmp_path / "nix"], ["--from", tmp_path], ["--host", "a b"]):
        assert lostfound("changes", *options).code == 2
    assert lostfound("changes", "--host", "a.org", "--url", "https://a.org/").code == 2
    assert lostfound("changes", "--data-dir", tmp_path / "nix").code == 4


def test_an_export_gives_the_same_changes(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
    assert lostfound("export", tmp_path / "exported").code == 0
    from_export = lostfound("changes", "--from", tmp_path / "exported", "--json", "--data-dir", tmp_path / "nix")
    assert from_export.code == 0
    assert not has_results(sample_state)
    assert from_export.rows == lostfound("changes", "--json").rows
    assert has_results(sample_state)


@pytest.mark.parametrize("command", [("forget", f"{SITE}/"), ("sweep", "cancel", SWEEPS[2])])
def test_removals_delete_the_cached_export_and_the_results(
    lostfound: Lostfound, sample_state: Path, command: tuple[str, ...]
) -> None:
    before = lostfound("changes", "--json").rows
    assert has_results(sample_state)
    assert (sample_state / export_cache.CACHE_FOLDER).exists()
    assert lostfound(*command).code == 0
    assert not has_results(sample_state)
    assert not (sample_state / export_cache.CACHE_FOLDER).exists()
    assert lostfound("changes", "--json").rows != before


def test_a_removal_waits_for_an_analysis(lostfound: Lostfound, sample_state: Path) -> None:
    descriptor = os.open(sample_state, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    ended: list[float] = []

    def end_analysis() -> None:
        time.sleep(0.5)
        ended.append(time.monotonic())
        os.close(descriptor)

    thread = threading.Thread(target=end_analysis)
    thread.start()
    result = lostfound("forget", f"{SITE}/")
    assert time.monotonic() > ended[0]
    thread.join()
    assert result.code == 0
    assert "waiting for an analysis of this state" in result.err


def test_a_backup_has_the_results_but_not_the_cached_export(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path
) -> None:
    lostfound("changes")
    assert lostfound("state", "backup", tmp_path / "copy").code == 0
    assert not (tmp_path / "copy" / export_cache.CACHE_FOLDER).exists()
    assert has_results(tmp_path / "copy")
    assert lostfound("state", "check", "--data-dir", tmp_path / "copy").code == 0


def test_analyses_are_computed_when_a_sweep_is_committed(lostfound: Lostfound, tmp_path: Path) -> None:
    config = tmp_path / "at-commit.toml"
    config.write_text('[analyses]\nat_commit = ["replicas", "changes"]\n')
    sample = SAMPLE / f"{SWEEPS[0]}.jsonl"
    assert lostfound("ingest", sample, "--sweep", "one", "--keep-open", "--config", config).code == 0
    assert not has_results(tmp_path / "data")
    assert lostfound("sweep", "commit", "one", "--config", config).code == 0
    assert stored_names(tmp_path / "data") == {(1, "replicas"), (1, "changes")}
    assert lostfound("ingest", SAMPLE / f"{SWEEPS[1]}.jsonl", "--sweep", "two", "--config", config).code == 0
    assert stored_names(tmp_path / "data") == {(n, name) for n in (1, 2) for name in ("replicas", "changes")}
    assert lostfound("state", "check").code == 0
    config.write_text('[analyses]\nat_commit = ["nix"]\n')
    assert lostfound("sweep", "list").code == 0
    assert lostfound("sweep", "list", "--config", config).code == 2


def stored_names(folder: Path) -> set[tuple[int, str]]:
    with Store(folder, writable=False) as store:
        keys = [analysis_row.decode_key(row)[0] for row, _ in store.scan(Family.ANALYSES)]
    return {(key.sweep, key.analysis) for key in keys}


@pytest.mark.parametrize("name", get_args(get_type_hints(AnalysisSettings)["at_commit"])[0].__args__)
def test_every_listed_analysis_exists(name: str) -> None:
    assert default_analysis(name).name == name
