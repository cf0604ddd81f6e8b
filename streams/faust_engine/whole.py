"""The whole collection from inside one worker: its own partitions and, over HTTP, those of the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import structlog

from state.changes import Changes
from state.errors import StateError
from state.store import Store
from streams.faust_engine import mending, returning
from streams.faust_engine.draining import ARRIVING, CLUSTERING, drained
from streams.faust_engine.idle import Lag
from streams.faust_engine.messages import Amendment, Topic
from streams.faust_engine.peer import Peer, own_token
from streams.faust_engine.rows import Ask, answer
from streams.faust_engine.runner import Runner
from streams.faust_engine.spread import Source, SpreadStore, Write

if TYPE_CHECKING:
    from streams.faust_engine.app import App

log = structlog.get_logger(__name__)
TAKEN_SECONDS_MAX = 60.0
ASKED_AT_ONCE = 16  # questions to workers, of all that are answered here


class Whole:
    """Answers for the collection; `store` is for threads, never for the loop that the agents run on."""

    def __init__(self, runner: Runner, app: App, lag: Lag) -> None:
        self.runner, self.app, self.lag = runner, app, lag
        self._loop = asyncio.get_running_loop()
        self._peers: dict[str, Peer] = {}
        self._amending = asyncio.Lock()
        self._threads = ThreadPoolExecutor(ASKED_AT_ONCE, "ask")

    def here(self) -> dict[int, Store]:
        """Stores of the partitions that this worker answers for."""
        held = self.runner.partitions
        return {number: held.held[number].store for number in held.actives if number in held.held}

    def answer(self, ask: Ask) -> Any:
        """The answer of partitions that are here; raises StateError for one that is not."""
        stores = self.here()
        if missing := sorted({*ask.partitions, *ask.owners} - set(stores)):
            raise StateError(f"partitions {missing} are not here any more", "ask again: the workers are changing")
        return answer(stores, ask)

    def store(self) -> SpreadStore:
        """The collection as it is spread now; raises StateError when partitions are with nobody.

        What is written is taken when `write` returns, and its clusters are whole: joins go on meanwhile.
        """
        return self._spread(self._write)

    def _spread(self, write: Write) -> SpreadStore:
        here = self.here()
        sources: dict[int, tuple[str, Source]] = {}
        for url, topics in self.app.router.table_metadata("state").items():
            for numbers in topics.values():
                sources.update({number: (url, self._peer(url).ask) for number in numbers})
        sources.update(dict.fromkeys(here, ("here", self.answer)))
        return SpreadStore(
            self.app.conf.id,
            self.runner.settings.scheme,
            sources,
            self.runner.context.partitions,
            self.runner.sweep_log.fold.rows(),
            write,
            self._threads,
        )

    def _peer(self, url: str) -> Peer:
        if url not in self._peers:
            self._peers[url] = Peer(url, self.runner.settings.kafka.answer_seconds_max, own_token())
        return self._peers[url]

    def _write(self, parts: Mapping[int, Changes]) -> None:
        gone = returning.before(self.store(), parts.values())
        self._amend(parts)
        if gone.places or gone.rows:
            self._drain(ARRIVING)
            sends = self._returning(gone)
            asyncio.run_coroutine_threadsafe(self.runner.outbox.send(sends), self._loop).result()
        mending.mend(self._spread(self._amend), parts, lambda: self._drain(CLUSTERING))

    def _returning(self, gone: returning.Before) -> returning.Sends:
        """What is to come once more; it is known here only, so that workers that change are waited for."""
        until = time.monotonic() + TAKEN_SECONDS_MAX
        while True:
            try:
                return returning.again(self.store(), gone, self.runner.context)
            except StateError as error:
                if time.monotonic() > until:
                    raise
                log.info("what came meanwhile cannot be told", why=str(error))
                time.sleep(1)

    def _amend(self, parts: Mapping[int, Changes]) -> None:
        sends = mending.amendments(self.store(), parts)
        asyncio.run_coroutine_threadsafe(self._taken(sends), self._loop).result(TAKEN_SECONDS_MAX)

    def _drain(self, stages: Sequence[Topic]) -> None:
        asyncio.run_coroutine_threadsafe(drained(self.lag, stages), self._loop).result()

    async def _taken(self, sends: Mapping[tuple[Topic, int], Sequence[Amendment]]) -> None:
        """Send changes, and return when the owners have taken them."""
        async with self._amending:
            await self.runner.outbox.send(sends)
            until = await self.lag.ends(Topic.AMENDMENTS)
            while not await self.lag.reached(Topic.AMENDMENTS, until):  # noqa: ASYNC110 - the broker tells nobody
                await asyncio.sleep(0.1)
