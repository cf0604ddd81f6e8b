"""Values that were asked for last, read many at once: asking a disk or a worker costs more than a further answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BatchLru(Generic[K, V]):
    """Values by key, at most `size` of them kept; `read` gives those of many keys, in their order."""

    def __init__(self, read: Callable[[list[K]], Iterable[V]], size: int) -> None:
        self._read, self._size = read, size
        self._held: OrderedDict[K, V] = OrderedDict()

    def __call__(self, key: K) -> V:
        """The value of one key."""
        held = self._held
        if key in held:
            held.move_to_end(key)
            return held[key]
        return self.many([key])[0]

    def many(self, keys: Iterable[K]) -> list[V]:
        """The values of many keys, in their order."""
        asked, held = list(keys), self._held
        if missing := [key for key in dict.fromkeys(asked) if key not in held]:
            held.update(zip(missing, self._read(missing), strict=True))
        found = [held[key] for key in asked]
        if len(missing) < len(asked):  # what was read now is at the end
            for key in asked:
                held.move_to_end(key)
        while len(held) > self._size:
            held.popitem(last=False)
        return found
