"""Limits the connections of the HTTP server, and closes slow connections.

A client that opens many connections, sends its requests slowly or does not read its answers could otherwise exhaust
the open files or the memory of the worker. Three limits apply:

- If too many connections are open, the connection that has waited longest for a request is closed. Other workers,
  which send their requests at once, therefore reach this worker even while slow clients hold all connections.
- A connection is closed if the headers of its next request do not arrive in time. This includes idle connections.
- A connection is closed if the client stops reading an answer for too long.

`http_server` limits the time for the body of a request, because only requests with a valid token may send one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streams.kafka.worker.metrics import Metrics
from streams.settings import ServerSettings


class Connections:
    """The open connections of a server."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self.settings, self._metrics = settings, metrics
        self._open: dict[asyncio.BaseTransport, _Connection] = {}
        self._idle: dict[_Connection, None] = {}  # without a request in progress; longest idle first

    def with_limits(self, factory: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """Return a factory of protocols to which the limits apply."""
        return lambda: _Connection(self, factory())

    @contextmanager
    def request_in_progress(self, transport: asyncio.BaseTransport | None) -> Iterator[None]:
        """Keep a connection from being closed as idle while a request is processed."""
        connection = self._open.get(transport) if transport is not None else None
        if connection is None:  # the client has closed it
            yield
            return
        self._idle.pop(connection, None)
        connection.stop_request_timer()
        try:
            yield
        finally:
            if connection.transport in self._open:
                self._idle[connection] = None
                connection.start_request_timer()

    def add(self, connection: _Connection) -> bool:
        """Add a new connection; return False if it must be closed, because all others have requests in progress."""
        if len(self._open) >= self.settings.connections_max:
            longest_idle = next(iter(self._idle), None)
            self.count_closed("limit")
            if longest_idle is None:
                return False
            self.remove(longest_idle)
            longest_idle.transport.abort()
        self._open[connection.transport] = connection
        self._idle[connection] = None
        self._metrics.connections.set(len(self._open))
        return True

    def remove(self, connection: _Connection) -> None:
        """Remove a connection that is closed."""
        self._open.pop(connection.transport, None)
        self._idle.pop(connection, None)
        self._metrics.connections.set(len(self._open))

    def count_closed(self, limit: str) -> None:
        """Count a connection that was closed because it reached a limit."""
        self._metrics.connections_closed.labels(limit).inc()


class _Connection(asyncio.Protocol):
    """Passes the events of a connection to the protocol that handles its requests."""

    transport: asyncio.Transport

    def __init__(self, connections: Connections, protocol: asyncio.Protocol) -> None:
        self._connections, self._protocol = connections, protocol
        self._loop = asyncio.get_running_loop()
        self._is_refused = False
        self._request_has_begun = True  # also for a new connection, because it should send a request at once
        self._request_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    def start_request_timer(self) -> None:
        """Close the connection if no headers arrive in time."""
        self._request_has_begun = False
        self._request_timer = self._loop.call_later(
            self._connections.settings.header_seconds_max, self._close_without_request
        )

    def stop_request_timer(self) -> None:
        """Note that the headers of a request have arrived."""
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _close_without_request(self) -> None:
        if self._request_has_begun:  # otherwise the connection was merely idle
            self._connections.count_closed("header_seconds")
        self.transport.abort()

    def _close_unread(self) -> None:
        self._connections.count_closed("send_seconds")
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if not self._connections.add(self):
            self._is_refused = True
            transport.abort()
            return
        self.start_request_timer()
        self._request_has_begun = True  # see `__init__`
        self._protocol.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_refused:
            return
        self.stop_request_timer()
        if self._send_timer is not None:
            self._send_timer.cancel()
        self._connections.remove(self)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._request_has_begun = True
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._send_timer = self._loop.call_later(self._connections.settings.send_seconds_max, self._close_unread)
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
        self._protocol.resume_writing()
