"""Read the lives of URLs, as missing_rule.py defines them, through an LRU cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streams.find.batch_lru import BatchLru
from streams.find.missing_rule import Life, read_life
from streams.find.soft_errors import SoftErrors
from streams.find.sweep_index import SweepIndex

if TYPE_CHECKING:
    from state.view import View


class LifeCache:
    """The lives of URLs: in batches without a check for soft 404s, or one at a time with that expensive check."""

    def __init__(self, view: View, sweeps: SweepIndex, soft_errors: SoftErrors) -> None:
        self._view, self._sweeps, self._soft_errors = view, sweeps, soft_errors
        self._unchecked: BatchLru[bytes, Life] = BatchLru(self._read, 16_384)

    def many(self, keys: Iterable[bytes]) -> list[Life]:
        """Return the lives of many URLs; soft 404s count as pages."""
        return self._unchecked.many(keys)

    def checked(self, key: bytes) -> Life:
        """Return the life of a URL; soft 404s do not count as pages. This is not cached."""
        (captures,) = self._view.histories([key])
        return read_life(key, captures, self._sweeps, self._soft_errors.is_suspected)

    def _read(self, keys: list[bytes]) -> list[Life]:
        histories = zip(keys, self._view.histories(keys), strict=True)
        return [read_life(key, captures, self._sweeps, lambda _document, _key: False) for key, captures in histories]
