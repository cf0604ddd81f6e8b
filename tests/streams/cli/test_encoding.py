"""No command ends in a traceback because the encoding of its output lacks a character."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.streams.cli.conftest import Lostfound

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
END = b"\n--- end ---\n"
# One process runs all commands, because starting a process takes longer than a command. No command may fail with 70.
PROGRAM = f"""
import sys
from streams.cli import main
for command in sys.argv[1:]:
    sys.argv = ["lostfound", *command.split()]
    try:
        main()
    except SystemExit as exit:
        if exit.code == 70:
            sys.exit(f"{{command!a}} failed")
    sys.stdout.write({END.decode()!r})
"""


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
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *COMMANDS], cwd=folder, env=environment, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert b"Traceback" not in result.stderr, result.stderr
    *outputs, rest = result.stdout.split(END)
    assert (len(outputs), rest) == (len(COMMANDS), b"")
    output = dict(zip(COMMANDS, outputs, strict=True))
    assert f"-> {HOST}/".encode() in output[f"captures {OLD_ENCODED}"]
    assert b"+-" in output["demo --sample"] or b"->" in output["demo --sample"]
    # Files for other programs are UTF-8, whatever the encoding of the terminal is.
    for command in ("find --missing --csv", "find --missing --json"):
        assert "größe" in output[command].decode()
