"""The HTTP server of a worker: health, metrics, row queries, retractions, decisions and sweeps.

    GET  /livez             200 while the process runs
    GET  /readyz            200 if partitions are assigned and recovered and the disk has room, else 503 with reasons
    GET  /metrics           metrics for Prometheus
    POST /rows              a row query in msgpack for the whole collection, from a client
    POST /partition-rows    a row query in msgpack for partitions of this worker, from another worker
    POST /retract           changes that delete or overwrite rows, as a changelog record (used by `forget`)
    POST /decisions         decisions of editors, as a changelog record (used by `moved`, `gone` and `decisions`)
    POST /export            a step of an export in msgpack, from a client; all workers write their partitions
    POST /partition-export  a step of an export in msgpack, for partitions of this worker, from another worker
    POST /sweeps            an event for the sweep log, in JSON; a cancellation also removes the sweep's captures

The POST paths read and change all data, so they require the token (LOSTFOUND_TOKEN) that the workers and the command
line of one collection share. Without a token, a worker listens on this machine only, accepts no changes, and refuses
requests from web pages: a page can make a browser send requests to a host name that resolves to this machine.

Requests, connections, times and sizes are limited by the settings in [server]: see `request_pool` and `connections`.
A request beyond the limit on their number is answered with 429 and Retry-After.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import structlog
from aiohttp import web

from state.codecs import changelog_record, decision_row
from state.errors import LostfoundError, StateError
from state.families import Family
from state.model import Sweep, SweepState
from streams import forgetting
from streams.errors import InputError
from streams.forgetting import RemovalTotals
from streams.kafka.collection.collection import Collection
from streams.kafka.collection.connections import Connections
from streams.kafka.collection.request_pool import Overloaded, RequestPool
from streams.kafka.rows.row_query import QUERY_KEYS_BYTES_MAX, RowQuery, RowSource
from streams.kafka.rows.worker_client import CHANGES_BYTES_MAX, is_authorized, token_from_environment
from streams.kafka.wire.consumer_lag import wait_until_drained
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.sweep_log import Event
from streams.kafka.wire.validation import find_problem
from streams.kafka.worker.file_limit import count_open_files, open_files_max

if TYPE_CHECKING:
    from streams.kafka.rows.export_request import ExportRequest

log = structlog.get_logger(__name__)
# With less free space, a worker is not ready, because RocksDB would soon fail to write.
DISK_FREE_BYTES_MIN = 256 << 20
BODY_BYTES_MAX = 2 * CHANGES_BYTES_MAX
QUERY_BODY_BYTES_MAX = 2 * QUERY_KEYS_BYTES_MAX
EVENT_BYTES_MAX = 64 << 10
MSGPACK = "application/msgpack"
_decode_query = msgspec.msgpack.Decoder(RowQuery).decode
_encode = msgspec.msgpack.Encoder().encode
Handler = Callable[[web.Request], Awaitable[web.Response]]


class Server:
    """The HTTP server of one worker."""

    def __init__(self, collection: Collection) -> None:
        self.collection, self.runner, self.app = collection, collection.runner, collection.app
        self._web_runner: web.AppRunner | None = None
        self._listeners: list[asyncio.Server] = []
        self._cancellation_lock = asyncio.Lock()
        self._settings, metrics = self.runner.settings.server, self.runner.metrics
        self._connections = Connections(self._settings, metrics)
        wait_seconds_max = self.runner.settings.kafka.answer_seconds_max
        make_pool = partial(RequestPool, settings=self._settings, metrics=metrics)
        self._client_pool = make_pool("client", self._settings.client_requests_max, wait_seconds_max=wait_seconds_max)
        self._worker_pool = make_pool("worker", self._settings.worker_requests_max, wait_seconds_max=wait_seconds_max)
        self._change_pool = make_pool("change", self._settings.change_requests_max, wait_seconds_max=math.inf)

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Answer requests on the sockets that `listen` has opened."""
        token = token_from_environment()
        application = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[self._track_connection])
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        for path, handler, pool in (
            ("/rows", self._rows, self._client_pool),
            ("/partition-rows", self._partition_rows, self._worker_pool),
            ("/retract", self._retract, self._change_pool),
            ("/decisions", self._decisions, self._change_pool),
            ("/sweeps", self._sweeps, self._change_pool),
            ("/export", self._export, self._change_pool),
            ("/partition-export", self._partition_export, self._change_pool),
        ):
            admitted = _with_error_responses(_with_admission(handler, pool))
            makes_changes = pool is self._change_pool
            application.router.add_post(path, _with_authorization(admitted, token, makes_changes=makes_changes))
        self._web_runner = web.AppRunner(application, access_log=None)
        await self._web_runner.setup()
        assert self._web_runner.server is not None
        factory = self._connections.with_limits(self._web_runner.server)
        loop = asyncio.get_running_loop()
        self._listeners = [await loop.create_server(factory, sock=listener) for listener in sockets]

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        for listener in self._listeners:
            listener.close()
        if self._web_runner is not None:
            await self._web_runner.cleanup()
        for pool in (self._client_pool, self._worker_pool, self._change_pool):
            pool.stop()

    @web.middleware
    async def _track_connection(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        with self._connections.request_in_progress(request.transport):
            return await handler(request)

    async def _read_body(self, request: web.Request, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """Return the body of a request. Raise an HTTPException if it is too large or does not arrive in time."""
        try:
            async with asyncio.timeout(self._settings.body_seconds_max):
                return await request.clone(client_max_size=bytes_max).read()
        except TimeoutError as error:
            self._connections.count_closed("body_seconds")
            raise web.HTTPRequestTimeout(text="the body of the request did not arrive in time") from error

    def reasons_not_ready(self) -> list[str]:
        """Return the reasons why this worker is not ready, or [] if it is ready."""
        app, free_bytes = self.app, self._free_disk_bytes()
        reasons = []
        if not app.session.is_alive:
            reasons.append("the broker does not confirm that this worker is a member of its group")
        if app.rebalancing:
            reasons.append("partitions are not assigned")
        elif not self.runner.partitions.recovered:
            reasons.append("partitions are being recovered")
        if free_bytes < DISK_FREE_BYTES_MIN:
            reasons.append(f"the disk has {free_bytes} free bytes, fewer than {DISK_FREE_BYTES_MIN}")
        return reasons

    def _free_disk_bytes(self) -> int:
        folder = self.runner.partitions.folder
        return shutil.disk_usage(folder if folder.exists() else folder.parent).free

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        reasons = self.reasons_not_ready()
        return web.json_response({"ready": not reasons, "missing": reasons}, status=503 if reasons else 200)

    async def _metrics(self, _request: web.Request) -> web.Response:
        metrics, partitions = self.runner.metrics, self.runner.partitions
        metrics.ready.set(not self.reasons_not_ready())
        metrics.disk_free.set(self._free_disk_bytes())
        metrics.open_files.set(count_open_files())
        metrics.open_files_max.set(open_files_max())
        metrics.partitions.labels("active").set(len(partitions.active_numbers & partitions.by_number.keys()))
        metrics.partitions.labels("standby").set(len(partitions.by_number.keys() - partitions.active_numbers))
        metrics.waiting_messages.clear()
        for name, count in self.app.waiting_messages().items():
            metrics.waiting_messages.labels(name).set(count)
        return web.Response(body=metrics.render(), content_type="text/plain", charset="utf-8")

    def _ready_collection(self) -> Collection:
        if reasons := self.reasons_not_ready():
            raise StateError(f"this worker is not ready: {'; '.join(reasons)}", "retry, or query another worker")
        return self.collection

    async def _rows(self, request: web.Request) -> web.Response:
        query, collection = await self._read_query(request), self._ready_collection()
        if query.partitions is not None:
            raise ValueError("a query for partitions was not sent to /partition-rows")
        return await self._answer(self._client_pool, query, lambda query: collection.sharded_store().query(query))

    async def _partition_rows(self, request: web.Request) -> web.Response:
        query, collection = await self._read_query(request), self._ready_collection()
        return await self._answer(self._worker_pool, query, collection.query_local)

    async def _read_query(self, request: web.Request) -> RowQuery:
        query: RowQuery = _decode_query(await self._read_body(request, QUERY_BODY_BYTES_MAX))
        bytes_max = min(query.bytes_max, self._settings.answer_bytes_max)
        return msgspec.structs.replace(query, bytes_max=bytes_max)

    async def _answer(self, pool: RequestPool, query: RowQuery, source: RowSource) -> web.Response:
        def execute() -> bytes:
            answer = source(query)
            if answer.next_key is not None or len(answer.values) < len(query.keys):
                self.runner.metrics.answers_partial.inc()
            return _encode(answer)

        return web.Response(body=await pool.run(execute), content_type=MSGPACK)

    async def _retract(self, request: web.Request) -> web.Response:
        _, changes = changelog_record.decode(await self._read_body(request))
        collection = self._ready_collection()
        await self._change_pool.run(lambda: collection.apply_retraction(changes))
        return _respond(None)

    async def _decisions(self, request: web.Request) -> web.Response:
        _, changes = changelog_record.decode(await self._read_body(request))
        decisions = [decision_row.decode(*row) for row in changes.puts_of(Family.DECISIONS).items()]
        for decision in decisions:
            if problem := find_problem(decision, self.runner.settings.scheme):
                raise ValueError(problem)
        await self._ready_collection().apply_decisions(decisions)
        return _respond(None)

    async def _export(self, request: web.Request) -> web.Response:
        export_request, collection = await self._read_export_request(request), self._ready_collection()
        if export_request.partitions is not None:
            raise ValueError("an export of partitions was not sent to /partition-export")
        # Not in the pool: its threads must be free for requests from other workers that do not wait for anything.
        parts = await asyncio.to_thread(collection.export, export_request)
        return web.Response(body=_encode(parts), content_type=MSGPACK)

    async def _partition_export(self, request: web.Request) -> web.Response:
        export_request, collection = await self._read_export_request(request), self._ready_collection()
        parts = await self._change_pool.run(lambda: collection.export_local(export_request))
        return web.Response(body=_encode(parts), content_type=MSGPACK)

    async def _read_export_request(self, request: web.Request) -> ExportRequest:
        from streams.kafka.rows.export_request import ExportRequest

        export_request: ExportRequest = msgspec.msgpack.decode(await self._read_body(request), type=ExportRequest)
        return export_request

    async def _sweeps(self, request: web.Request) -> web.Response:
        event = msgspec.json.decode(await self._read_body(request, EVENT_BYTES_MAX), type=Event)
        collection, sweep_log = self._ready_collection(), self.runner.sweep_log
        sweep_log.table.check(event)
        match event.event:
            case "open":
                await sweep_log.get_or_open(event.name)
            case "commit":
                end_offsets = await collection.lag.end_offsets(Topic.PAGES)
                await sweep_log.append(msgspec.structs.replace(event, end_offsets=end_offsets))
            case _:  # "cancel", because `check` refuses all other events
                return _respond(await self._cancel(event))
        return _respond(None)

    async def _cancel(self, event: Event) -> RemovalTotals:
        """Hide a sweep, and remove its captures once all messages in flight are processed.

        Captures written later would remain forever, because the removal is not repeated.
        """
        sweep_log = self.runner.sweep_log
        async with self._cancellation_lock:
            sweep_log.table.check(event)
            number = await sweep_log.get_or_open(event.name)
            await sweep_log.append(msgspec.structs.replace(event, number=number))
            await sweep_log.wait_until(lambda table: table.sweeps[number].state >= SweepState.CANCELLING)
            await wait_until_drained(self.collection.lag)
            await sweep_log.append(Event(event="drained", name=event.name, time=event.time, number=number))
            await sweep_log.wait_until(lambda table: table.ignores_pages(number))
            await wait_until_drained(self.collection.lag)  # by then, all workers have read the event
            sweep = sweep_log.table.sweeps[number]
            totals = await self._change_pool.run(lambda: self._remove_captures(sweep))
            now = time.time_ns() // 1_000_000
            await sweep_log.append(Event(event="cancelled", name=event.name, time=now, number=number))
            await sweep_log.wait_until(lambda table: table.sweeps[number].state is SweepState.CANCELLED)
        return totals

    def _remove_captures(self, sweep: Sweep) -> RemovalTotals:
        removals = forgetting.cancel_sweep(self.collection.sharded_store(), sweep, only_writer=False)
        return forgetting.commit_removals(removals, self.collection.apply_retraction)


@contextmanager
def listen(host: str, port: int) -> Iterator[list[socket.socket]]:
    """Open a listening socket for each address of a host, all on the same port. Port 0 selects a free port.

    Raise InputError if an address cannot be bound, or if other machines could reach it without a token.
    """
    if not token_from_environment() and not _is_loopback(host):
        raise InputError(
            f"without a token, anyone who reaches {host} could change all data", "set LOSTFOUND_TOKEN on all workers"
        )
    with ExitStack() as stack:
        sockets: list[socket.socket] = []
        bound_port = port
        try:
            for family, _, _, _, address in sorted(set(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))):
                full_address = (address[0], bound_port, *address[2:])
                sockets.append(stack.enter_context(socket.create_server(full_address, family=family)))
                bound_port = sockets[0].getsockname()[1]
        except OSError as error:
            # create_server adds the address to `strerror`, so the reason is derived from `errno`. But in a gaierror,
            # `errno` is a code of getaddrinfo.
            reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
            raise InputError(f"cannot listen on {host}:{port}: {reason}", "choose another --port") from error
        yield sockets


def _respond(value: Any) -> web.Response:
    return web.Response(body=_encode(value), content_type=MSGPACK)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local_request(request: web.Request) -> bool:
    """Return whether a request is addressed to a loopback host name and does not come from a web page."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return False
    return _is_loopback(host) and "Origin" not in request.headers


def _with_authorization(handler: Handler, token: str, *, makes_changes: bool = False) -> Handler:
    """Return a handler that checks the token before the body is read.

    If no token is set, a handler that makes changes refuses all requests; otherwise any local program could call it.
    """

    async def check_and_handle(request: web.Request) -> web.Response:
        hint = "set LOSTFOUND_TOKEN to the same value for all workers and for this command"
        if not token and makes_changes:
            error = "without a token, a worker accepts no changes"
        elif not token and not _is_local_request(request):
            error = "without a token, a worker answers only programs on its own machine"
        elif not is_authorized(request.headers.get("Authorization"), token):
            error, hint = "the token is missing or wrong", "set LOSTFOUND_TOKEN to the workers' token"
        else:
            return await handler(request)
        return web.json_response({"error": error, "hint": hint}, status=401, headers={"WWW-Authenticate": "Bearer"})

    return check_and_handle


def _with_admission(handler: Handler, pool: RequestPool) -> Handler:
    """Return a handler that keeps a request in progress until its answer, which takes memory, is sent."""

    async def admit_and_handle(request: web.Request) -> web.Response:
        with pool.admit():
            response = await handler(request)
            with suppress(ConnectionError):  # the client has gone
                await response.prepare(request)
                await response.write_eof()
        return response

    return admit_and_handle


def _with_error_responses(handler: Handler) -> Handler:
    """Return a handler that turns exceptions into error responses."""

    async def handle(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except web.HTTPException:
            raise  # aiohttp turns this exception into a response, for example 413
        except Overloaded as error:
            headers = {"Retry-After": str(math.ceil(error.retry_seconds))}
            return web.json_response({"error": str(error), "hint": error.hint}, status=429, headers=headers)
        except LostfoundError as error:
            status = 503 if isinstance(error, StateError) else 409
            body = {"error": str(error), "hint": error.hint}
        except (msgspec.DecodeError, ValueError) as error:
            status, body = 400, {"error": str(error)[:500], "hint": "use the same version of lostfound as the worker"}
        except Exception as error:
            log.exception("a request failed", path=request.path)
            status, body = 500, {"error": repr(error)[:500], "hint": "see the worker's log"}
        return web.json_response(body, status=status)

    return handle
