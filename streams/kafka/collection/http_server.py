"""What a worker answers over HTTP: how it is, its metrics, and questions about the whole collection.

    GET  /livez      200 while the process runs
    GET  /readyz     200 when partitions are assigned and recovered and the disk has room; 503 says what is missing
    GET  /metrics    for Prometheus
    POST /rows       a question, msgpack: of partitions that are here, or of the whole collection
    POST /retract    changes that overwrite, as a record of the changelog: forgetting
    POST /sweeps     a record for the log of sweeps, JSON; a cancellation takes back what the sweep brought

The last three are for workers and the command line of the same collection: they show and change everything. They want
the token (LOSTFOUND_TOKEN); without one a worker listens on this machine only, takes no changes, and gives no rows to
pages in a browser, which can reach this machine under a name of their own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import socket
import time
from collections.abc import Awaitable, Callable
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
from streams.forgetting import Forgotten
from streams.kafka.collection.collection import Collection
from streams.kafka.rows.row_query import RowQuery
from streams.kafka.rows.worker_client import is_authorized, token_from_environment
from streams.kafka.wire.barrier import wait_until_drained
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.sweep_log import Event

log = structlog.get_logger(__name__)
DISK_FREE_BYTES_MIN = 256 << 20  # less room than this: not ready, before RocksDB cannot write
BODY_BYTES_MAX = 64 << 20
_decode_query = msgspec.msgpack.Decoder(RowQuery).decode
_encode = msgspec.msgpack.Encoder().encode
_HINT = "set LOSTFOUND_TOKEN, the same for all workers and for this command"
Handler = Callable[[web.Request], Awaitable[web.Response]]


class Server:
    """The HTTP server of one worker."""

    def __init__(self, collection: Collection) -> None:
        self.collection, self.runner, self.app = collection, collection.runner, collection.app
        self._web: web.AppRunner | None = None
        self._cancelling = asyncio.Lock()

    async def start(self, listening: socket.socket) -> None:
        """Answer requests on a socket made by `listen`."""
        token = token_from_environment()
        site = web.Application(client_max_size=BODY_BYTES_MAX)
        site.router.add_get("/livez", self._livez)
        site.router.add_get("/readyz", self._readyz)
        site.router.add_get("/metrics", self._metrics)
        site.router.add_post("/rows", _with_error_responses(_with_authorization(self._rows, token)))
        for path, handler in (("/retract", self._retract), ("/sweeps", self._sweeps)):
            site.router.add_post(
                path, _with_error_responses(_with_authorization(handler, token) if token else _no_changes)
            )
        self._web = web.AppRunner(site, access_log=None)
        await self._web.setup()
        await web.SockSite(self._web, listening).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._web is not None:
            await self._web.cleanup()

    def missing(self) -> list[str]:
        """What keeps this worker from being ready; empty when nothing does."""
        app, free = self.app, self._free()
        found = []
        if app.rebalancing:
            found.append("partitions are not assigned")
        elif not app.tables.actives_ready:
            found.append("partitions are being recovered")
        if free < DISK_FREE_BYTES_MIN:
            found.append(f"{free} bytes are free on disk, fewer than {DISK_FREE_BYTES_MIN}")
        return found

    def _free(self) -> int:
        folder = self.runner.partitions.folder
        return shutil.disk_usage(folder if folder.exists() else folder.parent).free

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, _request: web.Request) -> web.Response:
        missing = self.missing()
        return web.json_response({"ready": not missing, "missing": missing}, status=503 if missing else 200)

    async def _metrics(self, _request: web.Request) -> web.Response:
        metrics, opened = self.runner.metrics, self.runner.partitions
        metrics.ready.set(not self.missing())
        metrics.disk_free.set(self._free())
        metrics.partitions.labels("active").set(len(opened.active & opened.by_number.keys()))
        metrics.partitions.labels("standby").set(len(opened.by_number.keys() - opened.active))
        metrics.waiting_messages.clear()
        for name, count in self.app.waiting_messages().items():
            metrics.waiting_messages.labels(name).set(count)
        metrics.records_ahead.set(sum(partition.records_ahead for partition in opened.by_number.values()))
        return web.Response(body=metrics.render(), content_type="text/plain", charset="utf-8")

    def _ready_collection(self) -> Collection:
        if missing := self.missing():
            raise StateError(f"this worker is not ready: {'; '.join(missing)}", "retry, or query another worker")
        return self.collection

    async def _rows(self, request: web.Request) -> web.Response:
        query, collection = _decode_query(await request.read()), self._ready_collection()
        run = (
            collection.query_local if query.partitions is not None else lambda query: collection.store().query(query)
        )
        return _packed(await asyncio.to_thread(run, query))

    async def _retract(self, request: web.Request) -> web.Response:
        _, changes = changelog_record.decode(await request.read())
        await asyncio.to_thread(self._ready_collection().apply_retraction, changes)
        return _packed(None)

    async def _sweeps(self, request: web.Request) -> web.Response:
        event = msgspec.json.decode(await request.read(), type=Event)
        whole, sweep_log = self._ready_collection(), self.runner.sweep_log
        sweep_log.table.check(event)
        held = sweep_log.table.find(event.name)
        if held is None:
            await sweep_log.get_or_open(event.name)
            return _packed(None)
        if event.event == "commit":
            until = await whole.lag.end_offsets(Topic.PAGES)
            await sweep_log.append(msgspec.structs.replace(event, until=until))
            return _packed(None)
        return _packed(await self._cancel(event, whole))

    async def _cancel(self, event: Event, whole: Collection) -> Forgotten:
        """Hide a sweep, and once all of it that is under way has come, take it back.

        What the stages still held would be written after a look for it, and nobody would look again.
        """
        sweep_log = self.runner.sweep_log
        async with self._cancelling:
            sweep_log.table.check(event)
            number = await sweep_log.get_or_open(event.name)
            await sweep_log.append(msgspec.structs.replace(event, number=number))
            await sweep_log.wait_until(lambda table: table.sweeps[number].state >= SweepState.CANCELLING)
            await wait_until_drained(whole.lag)
            gone = await asyncio.to_thread(_cancel, whole, sweep_log.table.sweeps[number])
            await sweep_log.append(
                Event(event="cancelled", name=event.name, time=time.time_ns() // 1_000_000, number=number)
            )
            await sweep_log.wait_until(lambda table: table.sweeps[number].state is SweepState.CANCELLED)
        return gone


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes any free one.

    Raise InputError if the address cannot be bound, or if other machines could reach it without a token.
    """
    if not token_from_environment() and not _loopback(host):
        raise InputError(f"anyone who reaches {host} could change everything", "set LOSTFOUND_TOKEN on all workers")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"cannot listen on {host}:{port}: {error.strerror}", "choose another --port") from error


def _cancel(collection: Collection, sweep: Sweep) -> Forgotten:
    return forgetting.apply(forgetting.cancel_sweep(collection.store(), sweep), collection.apply_retraction)


def _packed(value: Any) -> web.Response:
    return web.Response(body=_encode(value), content_type="application/msgpack")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local_request(request: web.Request) -> bool:
    """Whether the question is to this machine by its own address, and from no page in a browser."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return False
    return _loopback(host) and "Origin" not in request.headers


def _with_authorization(handler: Handler, token: str) -> Handler:
    """A handler that answers those who have the token, before it reads what they send."""

    async def guarded(request: web.Request) -> web.Response:
        if not token and not _is_local_request(request):
            said = {"error": "without a token it answers programs on this machine only", "hint": _HINT}
            return web.json_response(said, status=401, headers={"WWW-Authenticate": "Bearer"})
        if not is_authorized(request.headers.get("Authorization"), token):
            said = {"error": "the token is missing or another", "hint": "set LOSTFOUND_TOKEN to that of the workers"}
            return web.json_response(said, status=401, headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    return guarded


async def _no_changes(_request: web.Request) -> web.Response:
    """Refuse: whoever runs anything on this machine, a page in a browser too, could ask for changes."""
    said = {"error": "it takes no changes without a token", "hint": _HINT}
    return web.json_response(said, status=401, headers={"WWW-Authenticate": "Bearer"})


def _with_error_responses(handler: Handler) -> Handler:
    """A handler whose errors are told to whoever asked."""

    async def guarded(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except web.HTTPException:
            raise  # an answer already, such as 413
        except LostfoundError as error:
            # A state that cannot answer now, or a question that is wrong.
            status = 503 if isinstance(error, StateError) else 409
            said = {"error": str(error), "hint": error.hint}
        except (msgspec.DecodeError, ValueError) as error:
            status, said = 400, {"error": str(error)[:500], "hint": "ask with a lostfound of this version"}
        except Exception as error:
            log.exception("a question was not answered", path=request.path)
            status, said = 500, {"error": repr(error)[:500], "hint": "the worker's log says more"}
        return web.json_response(said, status=status)

    return guarded
