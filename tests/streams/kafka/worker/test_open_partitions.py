"""Test the memory that the partitions of a worker share."""

from __future__ import annotations

from pathlib import Path

from state.changes import Changes
from state.families import Family, StoreLimits
from state.scheme import Scheme
from state.store import MIB
from streams.kafka.worker.open_partitions import OpenPartitions
from tests.streams.kafka.worker_fixture import write


def test_partitions_share_one_cache_and_one_limit_for_write_buffers(tmp_path: Path) -> None:
    """Their caches are one, and their buffers keep to one bound, with the filters that they have from the start."""
    limits, count = StoreLimits(cache_mib=16, write_buffers_mib=32), 12
    partitions = OpenPartitions(tmp_path, Scheme(), limits, count)
    for number in range(count):
        row = Changes()
        row.put(Family.BANDS, bytes((number,)), bytes(8))
        write(partitions.open(number), row)
    assert {id(partition.store._cache) for partition in partitions.by_number.values()} == {
        id(partitions.memory.cache)
    }
    assert 0 < partitions.memory.buffers.get_usage() <= limits.write_buffers_mib * MIB
    partitions.close_all()
