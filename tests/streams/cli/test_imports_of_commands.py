"""Commands import only what they use, so that they start quickly. Times depend on the machine; imports do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli import app

SAMPLE = Path(__file__).parents[3] / "streams" / "demo" / "sample"
URL = "https://www.windvane.example/faq.html"
MISSING_URL = "https://www.windvane.example/guide/alerts.html"

INGEST_ONLY = {"aiokafka", "faust", "fastwarc", "numba", "resiliparse", "streams.engine", "streams.sketch.kernel"}
LOG = {"structlog", "structlog.dev"}
NETWORK = {"asyncio", "http.client", "requests", "ssl", "tldextract", "urllib3"}
ALWAYS_FORBIDDEN = INGEST_ONLY | LOG | NETWORK | {"rich.progress", "rich.markdown", "rich.traceback"}
QUERY_FORBIDDEN = ALWAYS_FORBIDDEN | {"email.utils", "socket"}
HELP_FORBIDDEN = ALWAYS_FORBIDDEN | {"mmh3", "msgspec", "numpy", "rich", "rocksdict", "zstandard"}
FORBIDDEN = {
    ("--help",): HELP_FORBIDDEN,
    ("--version",): HELP_FORBIDDEN,
    ("find", "--help"): HELP_FORBIDDEN,
    ("find", URL): QUERY_FORBIDDEN,
    ("find", MISSING_URL): QUERY_FORBIDDEN,
    ("find", MISSING_URL, "--json"): QUERY_FORBIDDEN,
    ("cluster", URL): QUERY_FORBIDDEN,
    ("cluster", URL, "--threshold", "0.9"): QUERY_FORBIDDEN,
    ("captures", URL): QUERY_FORBIDDEN,
    ("clusters", "--limit", "3"): QUERY_FORBIDDEN,
    ("similar", URL): QUERY_FORBIDDEN,
    ("sweep", "list"): QUERY_FORBIDDEN,
    ("state", "stats"): QUERY_FORBIDDEN,
}
PROGRAM = """
import json, sys
from streams.cli.app import run
code = run(sys.argv[1:])
sys.stdout.flush()
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    for path in sorted(SAMPLE.glob("*.jsonl")):
        assert app.run(["ingest", str(path), "--sweep", path.stem, "--data-dir", str(folder)]) == 0
    return folder


def modules_after(data_dir: Path, *arguments: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--data-dir", str(data_dir), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(result.stdout.splitlines()[-1])
    assert code == 0, result.stderr
    return set(modules)


@pytest.mark.parametrize("arguments", FORBIDDEN, ids=" ".join)
def test_a_command_imports_nothing_that_it_does_not_need(data_dir: Path, arguments: tuple[str, ...]) -> None:
    assert sorted(modules_after(data_dir, *arguments) & FORBIDDEN[arguments]) == []


def test_new_text_and_many_urls_use_numba(data_dir: Path) -> None:
    assert "streams.sketch.kernel" in modules_after(data_dir, "find", "--missing")
    assert "streams.sketch.kernel" in modules_after(data_dir, "similar", str(SAMPLE / "2023-03.jsonl"))


def test_a_verbose_query_configures_the_log(data_dir: Path) -> None:
    assert "structlog" in modules_after(data_dir, "-v", "captures", URL)
