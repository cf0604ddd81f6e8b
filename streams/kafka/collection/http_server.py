"""The HTTP server of a worker: health, metrics, row queries, retractions and sweeps.

    GET  /livez      200 while the process runs
    GET  /readyz     200 if partitions are assigned and recovered and the disk has room, otherwise 503 with reasons
    GET  /metrics    metrics for Prometheus
    POST /rows       a row query in msgpack, for partitions of this worker or for the whole collection
    POST /retract    changes that delete or overwrite rows, as a changelog record (used by `forget`)
    POST /sweeps     an event for the sweep log, in JSON; a cancellation also removes the sweep's captures

The POST paths read and change all data, so they require the token (LOSTFOUND_TOKEN) that the workers and the command
line of one collection share. Without a token, a worker listens on this machine only, accepts no changes, and refuses
requests from web pages: a page can make a browser send requests to a host name that resolves to this machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog
from aiohttp import web

from state.codecs import changelog_record
from state.errors import LostfoundError, StateError
from state.model import Sweep, SweepState
from streams import forgetting
from streams.errors import InputError
from streams.forgetting import RemovalTotals
from streams.kafka.collection.collection import Collection
from streams.kafka.rows.row_query import RowQuery
from streams.kafka.rows.worker_client import is_authorized, token_from_environment
from streams.kafka.wire.consumer_lag import wait_until_drained
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.sweep_log import Event

log = structlog.get_logger(__name__)
# With less free space, a worker is not ready, because RocksDB would soon fail to write.
DISK_FREE_BYTES_MIN = 256 << 20
BODY_BYTES_MAX = 64 << 20
_decode_query = msgspec.msgpack.Decoder(RowQuery).decode
_encode = msgspec.msgpack.Encoder().encode
Handler = Callable[[web.Request], Awaitable[web.Response]]


class Server:
    """The HTTP server of one worker."""

    def __init__(self, collection: Collection) -> None:
        self.collection, self.runner, self.app = collection, collection.runner, collection.app
        self._web_runner: web.AppRunner | None = None
        self._cancellation_lock = asyncio.Lock()

    async def start(self, sockets: Sequence[socket.socket]) -> None:
        """Answer requests on the sockets that `listen` has opened."""
        token = token_from_environment()
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_post("/rows", _with_error_responses(_with_authorization(self._rows, token)))
        for path, handler in (("/retract", self._retract), ("/sweeps", self._sweeps)):
            application.router.add_post(
                path, _with_error_responses(_with_authorization(handler, token, makes_changes=True))
            )
        self._web_runner = web.AppRunner(application, access_log=None)
        await self._web_runner.setup()
        for listener in sockets:
            await web.SockSite(self._web_runner, listener).start()

    async def stop(self) -> None:
        """Close all connections and stop listening."""
        if self._web_runner is not None:
            await self._web_runner.cleanup()

    def reasons_not_ready(self) -> list[str]:
        """Return the reasons why this worker is not ready, or [] if it is ready."""
        app, free_bytes = self.app, self._free_disk_bytes()
        reasons = []
        if app.rebalancing:
            reasons.append("partitions are not assigned")
        elif not app.tables.actives_ready:
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
        metrics.partitions.labels("active").set(len(partitions.active_numbers & partitions.by_number.keys()))
        metrics.partitions.labels("standby").set(len(partitions.by_number.keys() - partitions.active_numbers))
        metrics.waiting_messages.clear()
        for name, count in self.app.waiting_messages().items():
            metrics.waiting_messages.labels(name).set(count)
        metrics.records_after_gap.set(sum(partition.records_after_gap for partition in partitions.by_number.values()))
        return web.Response(body=metrics.render(), content_type="text/plain", charset="utf-8")

    def _ready_collection(self) -> Collection:
        if reasons := self.reasons_not_ready():
            raise StateError(f"this worker is not ready: {'; '.join(reasons)}", "retry, or query another worker")
        return self.collection

    async def _rows(self, request: web.Request) -> web.Response:
        query, collection = _decode_query(await request.read()), self._ready_collection()
        if query.partitions is not None:
            return _respond(await asyncio.to_thread(collection.query_local, query))
        return _respond(await asyncio.to_thread(lambda: collection.sharded_store().query(query)))

    async def _retract(self, request: web.Request) -> web.Response:
        _, changes = changelog_record.decode(await request.read())
        await asyncio.to_thread(self._ready_collection().apply_retraction, changes)
        return _respond(None)

    async def _sweeps(self, request: web.Request) -> web.Response:
        event = msgspec.json.decode(await request.read(), type=Event)
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
            totals = await asyncio.to_thread(self._remove_captures, sweep_log.table.sweeps[number])
            now = time.time_ns() // 1_000_000
            await sweep_log.append(Event(event="cancelled", name=event.name, time=now, number=number))
            await sweep_log.wait_until(lambda table: table.sweeps[number].state is SweepState.CANCELLED)
        return totals

    def _remove_captures(self, sweep: Sweep) -> RemovalTotals:
        removals = forgetting.cancel_sweep(self.collection.sharded_store(), sweep)
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
    return web.Response(body=_encode(value), content_type="application/msgpack")


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


def _with_error_responses(handler: Handler) -> Handler:
    """Return a handler that turns exceptions into error responses."""

    async def handle(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except web.HTTPException:
            raise  # aiohttp turns this exception into a response, for example 413
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
