"""With `--server`, commands analyse the state of the workers, and answer as for the same state in a local folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from state.store import Store
from tests.samples import take
from tests.streams.cli.conftest import Lostfound
from tests.streams.cli.test_commands_collections import PAGES, A, B, manual
from tests.streams.kafka.workers_with_rows import TOKEN, commit_sweeps, workers_with

MIRROR = "https://mirror.example/docs/"
URLS = [f"{A}1.html", f"{MIRROR}1.html", f"{B}2.html", "https://x.example/", MIRROR]


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The URLs of two workers that have the pages of the state in `tmp_path / "data"`."""
    monkeypatch.setenv("LOSTFOUND_TOKEN", TOKEN)
    lines = [line for root in (A, B, MIRROR) for line in manual(root, range(PAGES))]
    with Store(tmp_path / "data") as store:
        take(store, tmp_path / "live.jsonl", lines, "live")
        with workers_with(store, tmp_path / "workers", tmp_path / "exports") as servers:
            commit_sweeps(servers, "live")
            (tmp_path / "exports").mkdir()
            yield [server.url for server in servers]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "client.toml"
    path.write_text(f'[kafka]\nexport_folder = "{tmp_path / "exports"}"\n')
    return path


def test_the_answers_are_those_of_the_local_state(
    lostfound: Lostfound, workers: list[str], config: Path, tmp_path: Path
) -> None:
    urls = tmp_path / "urls.txt"
    urls.write_text("\n".join(URLS))
    commands = [[name, "--json"] for name in ("avoid", "mirrors", "replicas", "collections")]
    commands += [["avoid", "--format", "surt"], ["group", str(urls), "--json"]]
    for number, command in enumerate(commands):
        local = lostfound(*command)
        assert (local.code, bool(local.out)) == (0, True), command
        answer = lostfound(*command, "--server", workers[number % 2], "--config", config)
        assert (answer.code, answer.out) == (0, local.out), command
    assert list((tmp_path / "exports").iterdir()) == []  # `forget` does not know the files of these exports


def test_a_worker_and_the_command_need_a_folder_for_exports(
    lostfound: Lostfound, workers: list[str], tmp_path: Path
) -> None:
    result = lostfound("avoid", "--server", workers[0])
    assert result.code == 2
    assert "needs a folder for exports" in result.err
    assert "kafka.export_folder" in result.err
    config = tmp_path / "other.toml"
    config.write_text(f'[kafka]\nexport_folder = "{tmp_path / "elsewhere"}"\n')
    result = lostfound("avoid", "--server", workers[0], "--config", config)
    assert result.code == 2
    assert "is not in" in result.err
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_export_is_analysed_without_the_workers(
    lostfound: Lostfound, workers: list[str], config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--from has priority over the address in the environment."""
    folder = tmp_path / "exports" / "all"
    assert lostfound("export", folder, "--server", workers[0], "--config", config).code == 0
    monkeypatch.setenv("LOSTFOUND_SERVER", "http://127.0.0.1:1")
    assert lostfound("avoid", "--json", "--from", folder).rows
    assert lostfound("avoid", "--json").code == 2
