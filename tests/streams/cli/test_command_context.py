"""Opening the state: missing, locked, damaged, of another scheme or format, or behind a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from state.changes import Changes
from state.families import Family
from state.store import Store
from streams.cli.exit_codes import Exit
from tests.streams.cli.conftest import SAMPLE, SITE, Lostfound

FAQ = f"{SITE}/faq.html"


@pytest.mark.parametrize(
    "command",
    [("sweep", "open", "x"), ("sweep", "commit", "2025-09"), ("sweep", "cancel", "2025-09"), ("forget", FAQ)],
)
def test_a_state_of_a_newer_format_is_not_written(
    lostfound: Lostfound, sample_state: Path, command: tuple[str, ...]
) -> None:
    with Store(sample_state) as store:
        changes = Changes()
        changes.put(Family.META, b"format", b"99")
        store.write(changes)
    result = lostfound(*command)
    assert result.code == 4
    assert "format 99" in result.err


def test_a_query_without_a_state_is_an_error(lostfound: Lostfound) -> None:
    for arguments in (("clusters",), ("captures", FAQ), ("sweep", "list"), ("state", "check"), ("find", FAQ)):
        result = lostfound(*arguments)
        assert result.code == 4
        assert "no state in" in result.err


def test_the_error_about_another_scheme_names_the_difference(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "other.toml"
    settings.write_text("[scheme]\nshingle_words = 5\n")
    result = lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "again", "--config", settings)
    assert result.code == 4
    assert "shingle_words 4 instead of 5" in result.err


def test_the_error_about_a_setting_names_it(lostfound: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "wrong.toml"
    settings.write_text("[policy]\nthreshold = 7\n")
    result = lostfound("clusters", "--config", settings)
    assert result.code == 2
    assert "threshold" in result.err


def test_a_second_writer_is_refused_and_readers_are_not(lostfound: Lostfound, sample_state: Path) -> None:
    with Store(sample_state):
        result = lostfound("sweep", "open", "another")
        assert result.code == 4
        assert "another process is writing" in result.err
        assert lostfound("clusters").code == 0


@pytest.mark.parametrize(
    "command", [("forget", "https://a.example/"), ("sweep", "commit", "x"), ("sweep", "cancel", "x"), ("clusters",)]
)
def test_only_ingest_and_open_create_a_folder(lostfound: Lostfound, tmp_path: Path, command: tuple[str, ...]) -> None:
    result = lostfound("--data-dir", tmp_path / "mistyped", *command)
    assert result.code == 4
    assert "no state in" in result.err
    assert not (tmp_path / "mistyped").exists()


def test_damaged_files_are_reported(lostfound: Lostfound, sample_state: Path) -> None:
    for file in sample_state.glob("*.sst"):
        file.write_bytes(file.read_bytes()[:20] + b"garbage" + file.read_bytes()[27:])
    result = lostfound("find", "--missing")
    assert result.code == 4
    assert "damaged" in result.err or "cannot open the state" in result.err


QUERIES = [["clusters"], ["sweep", "list"], *(["sweep", step, "x"] for step in ("open", "commit", "cancel"))]


class OtherServer(BaseHTTPRequestHandler):
    """Answers every request with an HTML page."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<p>It works!")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def other_server() -> Iterator[str]:
    """The URL of a server that is not a worker."""
    with HTTPServer(("127.0.0.1", 0), OtherServer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("command", QUERIES, ids=" ".join)
def test_an_invalid_response_of_a_server_is_reported(
    lostfound: Lostfound, other_server: str, command: list[str]
) -> None:
    result = lostfound(*command, "--server", other_server)
    assert result.code == Exit.STATE
    assert f"the response from the worker at {other_server} cannot be decoded" in result.err
    assert not result.out


@pytest.mark.parametrize("command", QUERIES, ids=" ".join)
def test_an_invalid_server_url_is_an_error(lostfound: Lostfound, command: list[str]) -> None:
    result = lostfound(*command, "--server", "http://[")
    assert result.code == Exit.USAGE
    assert "'http://['" in result.err
