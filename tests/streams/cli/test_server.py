"""Commands that ask a server, where none of ours answers: what is said, and the exit code."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from streams.cli.exit_codes import Exit
from tests.streams.cli.conftest import Lostfound

ASKING = [["clusters"], ["sweep", "list"], *(["sweep", step, "x"] for step in ("open", "commit", "cancel"))]


class Stranger(BaseHTTPRequestHandler):
    """Answers everything with a page."""

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<p>It works!")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def stranger() -> Iterator[str]:
    """The URL of a server that is no worker."""
    with HTTPServer(("127.0.0.1", 0), Stranger) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_an_answer_that_cannot_be_read(lostfound: Lostfound, stranger: str, command: list[str]) -> None:
    done = lostfound(*command, "--server", stranger)
    assert done.code == Exit.STATE
    assert f"the response of the worker at {stranger} cannot be decoded" in done.err
    assert not done.out


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_a_url_that_is_none(lostfound: Lostfound, command: list[str]) -> None:
    done = lostfound(*command, "--server", "http://[")
    assert done.code == Exit.USAGE
    assert "'http://[' is not the URL of a worker" in done.err


@pytest.mark.parametrize("command", [["topics", "create"], ["worker"], ["publish", "x.jsonl", "--sweep", "x"]])
def test_an_address_that_is_none(lostfound: Lostfound, command: list[str]) -> None:
    done = lostfound(*command, "--bootstrap", "127.0.0.1:abc")
    assert done.code == Exit.USAGE
    assert "'127.0.0.1:abc' is no address of a broker" in done.err
