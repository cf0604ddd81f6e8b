"""Opens and closes a worker's state partitions, which share one cache and one limit for write buffers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import msgspec

from state.families import StoreLimits
from state.partition import Partition
from state.scheme import Scheme
from state.store import MemoryBudget, Store


class OpenPartitions:
    """Open partitions, each with a lock. This worker owns those in `active_numbers`; others are standby copies."""

    def __init__(self, folder: Path, scheme: Scheme, limits: StoreLimits, partition_count: int) -> None:
        self.folder, self.scheme, self.partition_count = folder, scheme, partition_count
        self.memory = MemoryBudget(limits)  # shared, because one worker may own all partitions
        write_buffers_mib = max(1, limits.write_buffers_mib // partition_count)
        self.partition_limits = msgspec.structs.replace(limits, write_buffers_mib=write_buffers_mib)
        self.by_number: dict[int, Partition] = {}
        self.active_numbers: frozenset[int] = frozenset()
        self.recovered = False  # whether the active partitions have caught up with their changelogs
        self.locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)  # by partition number

    def path(self, number: int) -> Path:
        """Return the folder of a partition."""
        return self.folder / "partitions" / str(number)

    def open(self, number: int) -> Partition:
        """Return a partition, opening it if necessary. Raise StateError if it cannot be opened."""
        assert 0 <= number < self.partition_count
        if number not in self.by_number:
            store = Store(self.path(number), self.partition_limits, memory=self.memory)
            self.by_number[number] = Partition(store, self.scheme, number, self.partition_count)
        return self.by_number[number]

    def recovered_partition(self, number: int) -> Partition | None:
        """Return a partition if it is active and has caught up with its changelog, else None."""
        return self.by_number.get(number) if self.recovered and number in self.active_numbers else None

    def close(self, number: int) -> None:
        """Close a partition if it is open."""
        if (partition := self.by_number.pop(number, None)) is not None:
            partition.close()

    def close_all(self) -> None:
        """Close all partitions."""
        for number in list(self.by_number):
            self.close(number)
