"""Asking a worker over HTTP, with a limit of time; and a collection as one worker answers for it.

Bodies are msgpack. Where a token is set (LOSTFOUND_TOKEN, the same for all), it goes with every question. An answer
that is late, wrong or missing is an error that names the worker: nothing is left out in silence.
"""

from __future__ import annotations

import hmac
import http.client
import os
import threading
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from state.changes import Changes
from state.codecs import changelog_record
from state.errors import StateError
from streams.errors import InputError
from streams.kafka.rows.row_query import ANSWERS, RowQuery
from streams.kafka.rows.sharded_store import RemoteRows

_encode = msgspec.msgpack.Encoder().encode
_decoders = {what: msgspec.msgpack.Decoder(kind) for what, kind in ANSWERS.items()}
RECORD_BYTES_MAX = 8 << 20
AMEND_SECONDS_MAX = 3600.0  # what is under way comes first


def token_from_environment() -> str:
    """The token that this process gives and asks for; empty: none. Raises InputError for one that no header takes."""
    token = os.environ.get("LOSTFOUND_TOKEN", "")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(
            "LOSTFOUND_TOKEN holds spaces or other than printable ASCII", "`openssl rand -hex 32` gives one"
        )
    return token


def is_authorized(given: str | None, token: str) -> bool:
    """Whether an Authorization header holds the token."""
    said = (given or "").encode("utf-8", "replace")
    return not token or hmac.compare_digest(said, _bearer(token).encode())


def url_for(host: str, port: int) -> str:
    """The URL of whoever listens on an address; one of IPv6 stands in brackets there."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bearer(token: str) -> str:
    return f"Bearer {token}"


def parse_worker_url(url: str) -> SplitResult:
    """The parts of a worker's URL; raises InputError for one that cannot be asked."""
    try:
        parts = urlsplit(url.rstrip("/"))
        host = (parts.hostname or "").encode("idna")  # as it is when it is looked up
        usable = parts.scheme in ("http", "https") and host and parts.port != 0 and parts.path.isascii()
    except ValueError:
        usable = False
    if not usable:
        raise InputError(f"{url!r} is no server", "name a worker as http://HOST:PORT")
    return parts


class ErrorResponse(msgspec.Struct):
    """Why a worker gave no answer."""

    error: str
    hint: str = ""


class WorkerClient:
    """One worker; a connection a thread, kept open."""

    def __init__(self, url: str, seconds_max: float, token: str = "") -> None:
        """Raises InputError for a URL that is none."""
        self._headers = {"Authorization": _bearer(token)} if token else {}
        self.url, self.seconds_max = url.rstrip("/"), seconds_max
        self._parts = parse_worker_url(url)
        self._held = threading.local()

    def ask(self, ask: RowQuery) -> Any:
        """The answer to a question; raises StateError."""
        return self.decode_response(self.post("/rows", _encode(ask)), _decoders[ask.what])

    def decode_response(self, body: bytes, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
        """What the worker answered; raises StateError for what is no such answer."""
        try:
            return decoder.decode(body)
        except msgspec.DecodeError as error:
            raise StateError(f"the worker at {self.url} gave no answer that can be read: {error}") from error

    def post(self, path: str, body: bytes, seconds_max: float | None = None) -> bytes:
        """Send a body and return what came back; raises StateError, and InputError for a wrong token or question."""
        limit = seconds_max or self.seconds_max
        try:
            status, answer = self._exchange(path, body, limit)
        except ConnectionRefusedError as error:
            raise StateError(
                f"nobody listens at {self.url}",
                "start the worker, or name another one; a part of the answer would be missing, so there is none",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise StateError(
                f"the worker at {self.url} did not answer within {limit:g} s: {error!r}",
                "a part of the answer is missing, so there is none; ask again, or see /readyz of the workers",
            ) from error
        if status == http.HTTPStatus.OK:
            return answer
        try:
            said = msgspec.json.decode(answer, type=ErrorResponse)
        except msgspec.DecodeError:
            said = ErrorResponse(f"HTTP status {status}")
        if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.CONFLICT):
            raise InputError(f"the worker at {self.url} says: {said.error}", said.hint)
        raise StateError(f"the worker at {self.url} says: {said.error}", said.hint)

    def _exchange(self, path: str, body: bytes, limit: float) -> tuple[int, bytes]:
        connection = self._connection(limit)
        try:
            connection.request("POST", self._parts.path + path, body, self._headers)
        except (OSError, http.client.HTTPException):
            connection.close()  # closed at the other end while it was idle; once more on a new one
            connection.request("POST", self._parts.path + path, body, self._headers)
        try:
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    def _connection(self, limit: float) -> http.client.HTTPConnection:
        held: http.client.HTTPConnection | None = getattr(self._held, "connection", None)
        if held is None or held.timeout != limit:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            held = kind(self._parts.hostname or "", self._parts.port, timeout=limit)
            self._held.connection = held
        return held


class RemoteStore(RemoteRows):
    """The whole collection, as the worker at a URL answers for it."""

    def __init__(self, peer: WorkerClient, *, writable: bool = False) -> None:
        super().__init__(peer.url)
        self.peer, self.writable = peer, writable

    def ask(self, ask: RowQuery) -> Any:
        """Have the worker ask the owners."""
        return self.peer.ask(ask)

    def write(self, changes: Changes, *, sync: bool = False) -> None:  # noqa: ARG002
        """Have the owners take changes that overwrite; returns when they have."""
        for record in changelog_record.encode(
            changes, kind=changelog_record.AMENDMENT, record_bytes_max=RECORD_BYTES_MAX
        ):
            self.peer.post("/retract", record, AMEND_SECONDS_MAX)
