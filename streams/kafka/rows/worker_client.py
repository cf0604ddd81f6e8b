"""The HTTP client for workers.

Bodies are msgpack. A worker with too many requests in progress answers with 429. The client then waits for the time
in Retry-After, and repeats the request. Every request contains LOSTFOUND_TOKEN if it is set; all workers must have
the same token. A late, invalid or missing response raises an error that names the worker. Partial answers are never
returned.
"""

from __future__ import annotations

import hmac
import http.client
import os
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from state.changes import Changes
from state.codecs import changelog_record
from state.errors import StateError
from streams.errors import InputError
from streams.kafka.rows.row_query import ANSWER_TYPES, Answer, RowQuery, single_generation
from streams.kafka.rows.sharded_store import QueryStore

if TYPE_CHECKING:
    from streams.export.data_set import Part
    from streams.kafka.rows.export_request import ExportRequest

_encode = msgspec.msgpack.Encoder().encode
_decoder_of = cache(msgspec.msgpack.Decoder)
CHANGES_BYTES_MAX = 8 << 20  # larger changes are sent in parts
_CHANGE_SECONDS = 3600.0  # timeout of changes: the worker first waits for all messages in flight


def token_from_environment() -> str:
    """Return LOSTFOUND_TOKEN, or "" if it is not set. Raise InputError if it is not valid in an HTTP header."""
    token = os.environ.get("LOSTFOUND_TOKEN", "")
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(
            "LOSTFOUND_TOKEN contains spaces or characters other than printable ASCII",
            "generate a token with `openssl rand -hex 32`",
        )
    return token


def is_authorized(header: str | None, token: str) -> bool:
    """Return whether an Authorization header contains the token. Without a token, all requests are authorized."""
    header_bytes = (header or "").encode("utf-8", "replace")
    return not token or hmac.compare_digest(header_bytes, f"Bearer {token}".encode())


def url_for(host: str, port: int) -> str:
    """Return the HTTP URL of a host and port, with brackets around an IPv6 address."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def parse_worker_url(url: str) -> SplitResult:
    """Split the URL of a worker. Raise InputError if no worker can have this URL."""
    try:
        parts = urlsplit(url.rstrip("/"))
        host = (parts.hostname or "").encode("idna")  # raises ValueError for an invalid host name
        is_usable = parts.scheme in ("http", "https") and host and parts.port != 0 and parts.path.isascii()
    except ValueError:
        is_usable = False
    if not is_usable:
        raise InputError(f"{url!r} is not the URL of a worker", "use http://HOST:PORT")
    return parts


class _ErrorResponse(msgspec.Struct):
    """The body of a response with an error status."""

    error: str
    hint: str = ""


class WorkerClient:
    """The client of one worker. Each thread keeps one connection open."""

    def __init__(self, url: str, timeout_seconds: float, token: str = "") -> None:
        """Raise InputError for an invalid URL."""
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.url, self.timeout_seconds = url.rstrip("/"), timeout_seconds
        self._url_parts = parse_worker_url(url)
        self._thread_local = threading.local()

    def store(self) -> QueryStore:
        """Return a store that reads the collection through this worker, and fails once partitions are reassigned."""
        return QueryStore(self.url, single_generation(self.query))

    def query(self, query: RowQuery) -> Answer:
        """Return the answer to a row query. Raise the same errors as `post`."""
        path = "/rows" if query.partitions is None else "/partition-rows"
        answer: Answer = self.post(path, _encode(query), ANSWER_TYPES[type(query)], self.timeout_seconds)
        return answer

    def retract(self, changes: Changes) -> None:
        """Send a retraction and return once the owners of all rows have applied it."""
        records = changelog_record.encode(
            changes, kind=changelog_record.RETRACTION, record_bytes_max=CHANGES_BYTES_MAX
        )
        for record in records:
            self.post("/retract", record, None)

    def decide(self, changes: Changes) -> None:
        """Send the decisions in `changes`, and return once the owners of their URLs have stored them."""
        for record in changelog_record.encode(changes, record_bytes_max=CHANGES_BYTES_MAX):
            self.post("/decisions", record, None)

    def export(self, request: ExportRequest) -> list[Part]:
        """Have the workers perform a step of an export, and return the parts that they wrote."""
        from streams.export.data_set import Part

        path = "/export" if request.partitions is None else "/partition-export"
        parts: list[Part] = self.post(path, _encode(request), list[Part])
        return parts

    def post(self, path: str, body: bytes, response_type: Any, timeout_seconds: float = _CHANGE_SECONDS) -> Any:
        """Send a body and return the decoded response.

        Raise StateError if no valid response arrives or the worker remains overloaded, and InputError if the worker
        rejects the token or the request.
        """
        deadline = time.monotonic() + timeout_seconds
        try:
            status, retry_seconds, response = self._exchange(path, body, timeout_seconds)
            while status == http.HTTPStatus.TOO_MANY_REQUESTS and time.monotonic() + retry_seconds < deadline:
                time.sleep(retry_seconds)
                status, retry_seconds, response = self._exchange(path, body, timeout_seconds)
        except ConnectionRefusedError as error:
            raise StateError(
                f"no worker is listening at {self.url}",
                "start this worker or use the URL of a different worker",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise StateError(
                f"no valid response from the worker at {self.url} (timeout {timeout_seconds:g} s): {error!r}",
                "retry, or check the workers' /readyz endpoints",
            ) from error
        if status == http.HTTPStatus.OK:
            try:
                return _decoder_of(response_type).decode(response)
            except msgspec.DecodeError as error:
                raise StateError(f"the response from the worker at {self.url} cannot be decoded: {error}") from error
        try:
            problem = msgspec.json.decode(response, type=_ErrorResponse)
        except msgspec.DecodeError:
            problem = _ErrorResponse(f"HTTP status {status}")
        error_type = InputError if status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.CONFLICT) else StateError
        raise error_type(f"the worker at {self.url} reports: {problem.error}", problem.hint)

    def _exchange(self, path: str, body: bytes, timeout_seconds: float) -> tuple[int, float, bytes]:
        """Send a request. Return the status, the seconds to wait before a retry, and the body of the response."""
        connection: http.client.HTTPConnection | None = getattr(self._thread_local, "connection", None)
        may_be_closed = connection is not None and connection.timeout == timeout_seconds
        if connection is None or connection.timeout != timeout_seconds:
            parts = self._url_parts
            connection_type = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
            connection = connection_type(parts.hostname or "", parts.port, timeout=timeout_seconds)
            self._thread_local.connection = connection
        while True:
            try:
                connection.request("POST", self._url_parts.path + path, body, self._headers)
                response = connection.getresponse()
                return response.status, _parse_seconds(response.headers.get("Retry-After")), response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # The worker may have closed the connection while it was idle: retry once on a new connection. Both
                # queries and changes can be repeated.
                if not (may_be_closed and isinstance(error, ConnectionError)):
                    raise
                may_be_closed = False


def _parse_seconds(retry_after: str | None) -> float:
    """Return the seconds in a Retry-After header, or 1 if it is missing or a date."""
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else 1.0
