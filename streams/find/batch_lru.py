"""An LRU cache that reads missing values in batches, because a batch costs little more than a single read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BatchLru(Generic[K, V]):
    """Caches the `size` most recently used values. `read` must return one value per key, in the order of the keys."""

    def __init__(self, read: Callable[[list[K]], Iterable[V]], size: int) -> None:
        assert size > 0, size
        self._read, self._size = read, size
        self._cache: OrderedDict[K, V] = OrderedDict()

    def __call__(self, key: K) -> V:
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        return self.get_many([key])[0]

    def get_many(self, keys: Iterable[K]) -> list[V]:
        """Return one value per key, in the order of the keys. Missing values are read in one call."""
        requested, cache = list(keys), self._cache
        if uncached := [key for key in dict.fromkeys(requested) if key not in cache]:
            cache.update(zip(uncached, self._read(uncached), strict=True))
        values = [cache[key] for key in requested]
        if len(uncached) < len(requested):  # otherwise all values were just read, so they are already at the end
            for key in requested:
                cache.move_to_end(key)
        while len(cache) > self._size:
            cache.popitem(last=False)
        return values
