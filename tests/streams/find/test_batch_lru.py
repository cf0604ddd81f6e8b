"""The LRU cache that reads in batches."""

from __future__ import annotations

from streams.find.batch_lru import BatchLru


def test_missing_values_are_read_together_and_the_last_ones_are_cached() -> None:
    read: list[list[int]] = []

    def squares(keys: list[int]) -> list[int]:
        read.append(keys)
        return [key * key for key in keys]

    cache = BatchLru(squares, 3)
    assert cache.get_many([2, 3, 2]) == [4, 9, 4]
    assert cache(3) == 9
    assert cache.get_many([3, 4]) == [9, 16]
    assert cache.get_many(range(6)) == [0, 1, 4, 9, 16, 25]  # more than the cache can store
    assert cache(5) == 25
    assert cache(1) == 1
    assert read == [[2, 3], [4], [0, 1, 5], [1]]
