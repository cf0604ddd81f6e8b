"""The LRU cache that reads in batches."""

from __future__ import annotations

from streams.find.batch_lru import BatchLru


def test_values_are_read_together_once_and_the_last_are_kept() -> None:
    read: list[list[int]] = []

    def squares(keys: list[int]) -> list[int]:
        read.append(keys)
        return [key * key for key in keys]

    kept = BatchLru(squares, 3)
    assert kept.many([2, 3, 2]) == [4, 9, 4]
    assert kept(3) == 9
    assert kept.many([3, 4]) == [9, 16]
    assert kept.many(range(6)) == [0, 1, 4, 9, 16, 25]  # more than are kept
    assert kept(5) == 25
    assert kept(1) == 1
    assert read == [[2, 3], [4], [0, 1, 5], [1]]
