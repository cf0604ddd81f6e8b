"""`lostfound demo`: on the sample, on the real manual's archives, and without a package index."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from streams.demo.manuals import EDITIONS
from streams.demo.run_demo import command_name
from tests.streams.cli.conftest import Lostfound
from tests.streams.demo.archives import edition_files, pack


def test_the_sample_fills_every_section_of_the_report(lostfound: Lostfound, tmp_path: Path) -> None:
    result = lostfound("demo", "--sample")
    assert result.code == 0
    expected = (
        "3 sweeps",
        "What is a copy of what",
        "/guide/export.html → /manual/export/",
        "Gone",
        "Packet radio",
    )
    assert [text for text in expected if text not in result.out] == []
    redirects = (tmp_path / "data" / "demo" / "sample-redirects.conf").read_text()
    assert '/guide/export.html" "https://www.windvane.example/manual/export/";' in redirects
    assert "ingested before" in lostfound("demo", "--sample").out


def test_the_suggested_commands_print_an_answer(lostfound: Lostfound) -> None:
    lines = lostfound("demo", "--sample").out.partition("Try next")[2].splitlines()
    commands = [shlex.split(line) for line in lines if line.strip()]
    assert [command[3] for command in commands] == ["find", "captures", "clusters", "find"]
    for _lostfound, *arguments in commands:
        result = lostfound(*arguments)
        assert result.code == 0, arguments
        assert result.out


def test_the_sample_is_used_without_a_package_index(lostfound: Lostfound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    result = lostfound("demo")
    assert result.code == 0
    assert "could not download" in result.err
    assert "using the built-in sample instead" in result.err
    assert "a small made-up manual" in result.out


def test_archives_become_sweeps(lostfound: Lostfound, tmp_path: Path) -> None:
    for edition in EDITIONS:
        archive = tmp_path / "data" / "demo" / "archives" / f"Django-{edition.version}.tar.gz"
        pack(archive, edition_files(edition))
    result = lostfound("demo")
    assert result.code == 0
    assert "6 editions" in result.out
    assert "/ref/contrib/csrf/ → /ref/csrf/" in result.out


def test_a_state_of_another_scheme_is_replaced(lostfound: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "other.toml"
    settings.write_text("[scheme]\nshingle_words = 5\n")
    lostfound("demo", "--sample")
    result = lostfound("demo", "--sample", "--config", settings)
    assert result.code == 0
    assert "ingested before" not in result.out


def test_the_suggested_commands_start_the_program_as_the_user_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / ".venv" / "bin" / "lostfound"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    assert command_name(".venv/bin/lostfound") == ".venv/bin/lostfound"
    assert command_name(str(program)) == ".venv/bin/lostfound"
    monkeypatch.setenv("PATH", str(program.parent))
    assert command_name(str(program)) == "lostfound"
