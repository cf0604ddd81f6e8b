"""The HTTP client of a worker, and a store that reads the whole collection through it.

Bodies are msgpack. If a token is set (LOSTFOUND_TOKEN, the same for all workers), every request carries it. A late,
invalid or missing response is an error that names the worker: partial answers are never returned.
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
from streams.kafka.rows.row_query import ANSWER_TYPES, RowQuery
from streams.kafka.rows.sharded_store import QueryStore

_encode = msgspec.msgpack.Encoder().encode
_decoders = {kind: msgspec.msgpack.Decoder(answer) for kind, answer in ANSWER_TYPES.items()}
RECORD_BYTES_MAX = 8 << 20
RETRACT_SECONDS_MAX = 3600.0  # the worker first waits for all messages in flight


def token_from_environment() -> str:
    """Return LOSTFOUND_TOKEN, empty if it is not set. Raise InputError if it cannot be sent in a header."""
    token = os.environ.get("LOSTFOUND_TOKEN", "")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(
            "LOSTFOUND_TOKEN contains spaces or characters other than printable ASCII",
            "generate one with `openssl rand -hex 32`",
        )
    return token


def is_authorized(header: str | None, token: str) -> bool:
    """Whether an Authorization header carries the token; without a token every request is authorized."""
    value = (header or "").encode("utf-8", "replace")
    return not token or hmac.compare_digest(value, _bearer(token).encode())


def url_for(host: str, port: int) -> str:
    """Return the URL of an address; an IPv6 address is put in brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _bearer(token: str) -> str:
    return f"Bearer {token}"


def parse_worker_url(url: str) -> SplitResult:
    """Return the parts of a worker's URL; raise InputError if no worker can be reached at it."""
    try:
        parts = urlsplit(url.rstrip("/"))
        host = (parts.hostname or "").encode("idna")  # the encoding used to look it up
        usable = parts.scheme in ("http", "https") and host and parts.port != 0 and parts.path.isascii()
    except ValueError:
        usable = False
    if not usable:
        raise InputError(f"{url!r} is not the URL of a worker", "use http://HOST:PORT")
    return parts


class ErrorResponse(msgspec.Struct):
    """The body of a response with an error status."""

    error: str
    hint: str = ""


class WorkerClient:
    """The client of one worker; it keeps one connection open per thread."""

    def __init__(self, url: str, seconds_max: float, token: str = "") -> None:
        """Raise InputError for an invalid URL."""
        self._headers = {"Authorization": _bearer(token)} if token else {}
        self.url, self.seconds_max = url.rstrip("/"), seconds_max
        self._parts = parse_worker_url(url)
        self._thread = threading.local()

    def query(self, query: RowQuery) -> Any:
        """Return the answer to a row query; raise StateError if the worker gives no answer."""
        return self.decode_response(self.post("/rows", _encode(query)), _decoders[type(query)])

    def retract(self, changes: Changes) -> None:
        """Send a retraction and return once the owners of all rows have applied it."""
        for record in changelog_record.encode(
            changes, kind=changelog_record.RETRACTION, record_bytes_max=RECORD_BYTES_MAX
        ):
            self.post("/retract", record, RETRACT_SECONDS_MAX)

    def decode_response(self, body: bytes, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
        """Decode the body of a response; raise StateError for an invalid one."""
        try:
            return decoder.decode(body)
        except msgspec.DecodeError as error:
            raise StateError(f"the response of the worker at {self.url} cannot be decoded: {error}") from error

    def post(self, path: str, body: bytes, seconds_max: float | None = None) -> bytes:
        """Send a body and return the body of the response.

        Raises StateError if the worker does not answer, InputError if it rejects the token or the request.
        """
        limit = seconds_max or self.seconds_max
        try:
            status, response = self._exchange(path, body, limit)
        except ConnectionRefusedError as error:
            raise StateError(
                f"no worker is listening at {self.url}",
                "start the worker or use another one; partial answers are never returned",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise StateError(
                f"the worker at {self.url} did not answer within {limit:g} s: {error!r}",
                "retry, or check /readyz of the workers; partial answers are never returned",
            ) from error
        if status == http.HTTPStatus.OK:
            return response
        try:
            refusal = msgspec.json.decode(response, type=ErrorResponse)
        except msgspec.DecodeError:
            refusal = ErrorResponse(f"HTTP status {status}")
        if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.CONFLICT):
            raise InputError(f"the worker at {self.url} reports: {refusal.error}", refusal.hint)
        raise StateError(f"the worker at {self.url} reports: {refusal.error}", refusal.hint)

    def _exchange(self, path: str, body: bytes, limit: float) -> tuple[int, bytes]:
        connection = self._connection(limit)
        try:
            connection.request("POST", self._parts.path + path, body, self._headers)
        except (OSError, http.client.HTTPException):
            connection.close()  # the worker closed the idle connection: retry on a new one
            connection.request("POST", self._parts.path + path, body, self._headers)
        try:
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise

    def _connection(self, limit: float) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._thread, "connection", None)
        if connection is None or connection.timeout != limit:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(self._parts.hostname or "", self._parts.port, timeout=limit)
            self._thread.connection = connection
        return connection


class RemoteStore(QueryStore):
    """The whole collection, read through one of its workers."""

    def __init__(self, client: WorkerClient) -> None:
        super().__init__(client.url)
        self._client = client

    def query(self, query: RowQuery) -> Any:
        """Have the worker query the owners of the rows."""
        return self._client.query(query)
