"""No command ends in a traceback because the encoding of its output lacks a character."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.streams.cli.conftest import COMMAND, Lostfound

HOST = "https://www.example.org"
TEXT = "Größen → Maße · übersetzt … 日本語 " + " ".join(f"wort{number}" for number in range(60))
OLD, NEW, OTHER = f"{HOST}/größe.html", f"{HOST}/maße/größe.html", f"{HOST}/日本.html"
OLD_ENCODED = f"{HOST}/gr%C3%B6%C3%9Fe.html"  # for locales in which arguments can only be ASCII
ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""},
}
COMMANDS = [
    f"captures {OLD}",
    f"captures {OLD_ENCODED}",
    "clusters",
    f"cluster {NEW}",
    f"similar {NEW}",
    "find --missing",
    f"find {OLD}",
    f"find {HOST}/größe-typo.html",
    "find --missing --csv",
    "find --missing --json",
    "find --missing --redirects nginx",
    "state stats",
    "state backup größe-→",
    "state dump captures",
    "sweep list",
    "ingest größe-→.jsonl --sweep größe",
    "demo --sample",
    "--help",
]


@pytest.fixture
def folder(lostfound: Lostfound, tmp_path: Path) -> Path:
    """A folder with a state that has characters outside ASCII in titles, texts, URLs and names of sweeps."""
    for sweep, urls in (("Größe 1", (OLD, OTHER)), ("Größe 2", (NEW, OTHER))):
        lines: list[dict[str, object]] = [
            {"url": url, "title": TEXT[:20], "text": f"{TEXT} {url if url == OTHER else ''}"} for url in urls
        ]
        if sweep == "Größe 2":
            lines.append({"url": OLD, "status": 301, "redirect": NEW, "text": ""})
        path = tmp_path / f"{sweep}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert lostfound("ingest", path, "--sweep", sweep).code == 0
    return tmp_path


@pytest.mark.parametrize("variables", ENCODINGS.values(), ids=ENCODINGS)
def test_every_command_writes_what_the_encoding_lacks_in_ascii(folder: Path, variables: dict[str, str]) -> None:
    environment = {**os.environ, **variables, "LOSTFOUND_DATA_DIR": "data", "NO_COLOR": "1"}
    output = {}
    for command in COMMANDS:
        result = subprocess.run(
            [*COMMAND, *command.split()], cwd=folder, env=environment, capture_output=True, check=False
        )
        message = f"{command}\n{result.stdout!r}\n{result.stderr!r}"
        assert result.returncode != 70, message
        assert b"Traceback" not in result.stderr, message
        output[command] = result.stdout
    assert f"-> {HOST}/".encode() in output[f"captures {OLD_ENCODED}"]
    assert b"+-" in output["demo --sample"] or b"->" in output["demo --sample"]
    # Files for other programs are UTF-8, whatever the encoding of the terminal is.
    for command in ("find --missing --csv", "find --missing --json"):
        assert "größe" in output[command].decode()
