"""The partitions that a worker has open: folders, a lock for each, and which of them it serves."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import msgspec

from state.partition import Partition
from state.scheme import Scheme
from state.store import Memory, Store
from state.store_limits import StoreLimits


class Partitions:
    """The partitions that this process has open, and a lock for each."""

    def __init__(self, folder: Path, scheme: Scheme, limits: StoreLimits, count: int) -> None:
        self.folder, self.scheme, self.count = folder, scheme, count
        # A worker may come to hold all of them: their memory is bounded together, and none is made for more.
        self.memory = Memory(limits)
        self.limits = msgspec.structs.replace(limits, write_buffers_mib=max(1, limits.write_buffers_mib // count))
        self.held: dict[int, Partition] = {}
        self.actives: frozenset[int] = frozenset()
        self.locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    def path(self, number: int) -> Path:
        """The folder of one partition; `lostfound state check --data-dir` takes it."""
        return self.folder / "partitions" / str(number)

    def open(self, number: int) -> Partition:
        """A partition, opened when it is not yet; raises StateError."""
        if number not in self.held:
            store = Store(self.path(number), self.limits, memory=self.memory)
            self.held[number] = Partition(store, self.scheme, number, self.count)
        return self.held[number]

    def close(self, number: int) -> None:
        """Let go of a partition."""
        if (partition := self.held.pop(number, None)) is not None:
            partition.close()

    def close_all(self) -> None:
        """Let go of all."""
        for number in list(self.held):
            self.close(number)
