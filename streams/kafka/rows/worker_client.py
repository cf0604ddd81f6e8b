"""The HTTP client for workers.

Bodies are msgpack. Every request contains LOSTFOUND_TOKEN, if set, which must be the same for all workers. A late,
invalid or missing response raises an error that names the worker: partial answers are never returned.
"""

from __future__ import annotations

import hmac
import http.client
import os
import threading
from functools import cache
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
_decoder = cache(msgspec.msgpack.Decoder)
_BODY_BYTES_MAX = 8 << 20
_CHANGE_SECONDS_MAX = 3600.0  # long, because the worker first waits for all messages in flight


def token_from_environment() -> str:
    """Return LOSTFOUND_TOKEN, by default an empty string. Raise InputError if a header cannot contain the token."""
    token = os.environ.get("LOSTFOUND_TOKEN", "")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(
            "LOSTFOUND_TOKEN contains spaces or characters other than printable ASCII",
            "generate one with `openssl rand -hex 32`",
        )
    return token


def is_authorized(header: str | None, token: str) -> bool:
    """Return whether an Authorization header contains the token. Without a token, all requests are authorized."""
    value = (header or "").encode("utf-8", "replace")
    return not token or hmac.compare_digest(value, f"Bearer {token}".encode())


def url_for(host: str, port: int) -> str:
    """Return the HTTP URL of a host and port, with brackets around an IPv6 address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def parse_worker_url(url: str) -> SplitResult:
    """Split the URL of a worker. Raise InputError if no worker can have this URL."""
    try:
        parts = urlsplit(url.rstrip("/"))
        host = (parts.hostname or "").encode("idna")  # raises ValueError for an invalid host name
        usable = parts.scheme in ("http", "https") and host and parts.port != 0 and parts.path.isascii()
    except ValueError:
        usable = False
    if not usable:
        raise InputError(f"{url!r} is not the URL of a worker", "use http://HOST:PORT")
    return parts


class _ErrorResponse(msgspec.Struct):
    """The body of a response with an error status."""

    error: str
    hint: str = ""


class WorkerClient:
    """The client of one worker. Each thread keeps one connection open."""

    def __init__(self, url: str, seconds_max: float, token: str = "") -> None:
        """Raise InputError for an invalid URL."""
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url, self.seconds_max = url.rstrip("/"), seconds_max
        self._parts = parse_worker_url(url)
        self._thread = threading.local()

    def store(self) -> QueryStore:
        """Return a store that reads the whole collection through this worker."""
        return QueryStore(self.url, self.query)

    def query(self, query: RowQuery) -> Any:
        """Return the answer to a row query. Raise the same errors as `post`."""
        return self.post("/rows", _encode(query), ANSWER_TYPES[type(query)], self.seconds_max)

    def retract(self, changes: Changes) -> None:
        """Send a retraction and return once the owners of all rows have applied it."""
        records = changelog_record.encode(changes, kind=changelog_record.RETRACTION, record_bytes_max=_BODY_BYTES_MAX)
        for record in records:
            self.post("/retract", record, None)

    def post(self, path: str, body: bytes, response_type: Any, seconds_max: float = _CHANGE_SECONDS_MAX) -> Any:
        """Send a body and return the decoded response.

        Raise StateError if no valid response arrives, InputError if the worker rejects the token or the request.
        """
        try:
            status, response = self._exchange(path, body, seconds_max)
        except ConnectionRefusedError as error:
            raise StateError(
                f"no worker is listening at {self.url}",
                "start this worker or use the URL of a different worker; partial answers are never returned",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise StateError(
                f"no response from the worker at {self.url} within {seconds_max:g} s: {error!r}",
                "retry, or check /readyz of the workers; partial answers are never returned",
            ) from error
        if status == http.HTTPStatus.OK:
            try:
                return _decoder(response_type).decode(response)
            except msgspec.DecodeError as error:
                raise StateError(f"the response of the worker at {self.url} cannot be decoded: {error}") from error
        try:
            problem = msgspec.json.decode(response, type=_ErrorResponse)
        except msgspec.DecodeError:
            problem = _ErrorResponse(f"HTTP status {status}")
        error_type = InputError if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.CONFLICT) else StateError
        raise error_type(f"the worker at {self.url} reports: {problem.error}", problem.hint)

    def _exchange(self, path: str, body: bytes, seconds_max: float) -> tuple[int, bytes]:
        connection: http.client.HTTPConnection | None = getattr(self._thread, "connection", None)
        if connection is None or connection.timeout != seconds_max:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            connection = kind(self._parts.hostname or "", self._parts.port, timeout=seconds_max)
            self._thread.connection = connection
        try:
            try:
                connection.request("POST", self._parts.path + path, body, self._headers)
            except (OSError, http.client.HTTPException):
                connection.close()  # the worker may have closed an idle connection: retry on a new connection
                connection.request("POST", self._parts.path + path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
