"""`lostfound config` and `lostfound docs`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from streams.manual import MANUAL_PAGES
from tests.streams.cli.conftest import ROOT, Lostfound


def test_config_prints_the_default_settings(lostfound: Lostfound, tmp_path: Path) -> None:
    result = lostfound("config")
    assert result.code == 0
    assert tomllib.loads(result.out)["find"]["confidence_min"] == 0.5
    assert lostfound("config", "--path").out.strip() == str(ROOT / "config" / "lostfound.toml")
    copy = tmp_path / "copy.toml"
    copy.write_text(result.out)
    assert lostfound("demo", "--sample", "--config", copy).code == 0


@pytest.mark.parametrize("name", MANUAL_PAGES)
def test_docs_prints_a_document(lostfound: Lostfound, name: str) -> None:
    assert lostfound("docs", name).out == (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_messages_name_commands_that_print_documents(lostfound: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "wrong.toml"
    settings.write_text("[find]\nconfidence_min = 7\n")
    assert "`lostfound config` lists every setting" in lostfound("clusters", "--config", settings).err
    (tmp_path / "empty").mkdir()
    result = lostfound("ingest", tmp_path / "empty", "--sweep", "one")
    assert "`lostfound docs formats-input`" in result.err
