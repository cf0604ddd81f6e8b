"""Lives of URLs by key, the last ones kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.find.batch_lru import BatchLru
from streams.find.history import Life, SweepIndex, life_of

if TYPE_CHECKING:
    from streams.find.copies import SoftErrors
    from streams.find.find_view import FindView


class LifeCache:
    """Reads lives of URLs: `of` takes every 2xx with text for a page; `checked`, at a cost, no soft 404."""

    def __init__(self, view: FindView, calendar: SweepIndex, soft: SoftErrors) -> None:
        self._view, self._calendar, self._soft = view, calendar, soft
        self.of: BatchLru[bytes, Life] = BatchLru(self._read, 16_384)

    def _read(self, keys: list[bytes]) -> list[Life]:
        histories = zip(keys, self._view.histories(keys), strict=True)
        return [life_of(key, captures, self._calendar, lambda _document, _key: False) for key, captures in histories]

    def checked(self, key: bytes) -> Life:
        """The life of a URL, its soft 404s taken for what they are."""
        (captures,) = self._view.histories([key])
        return life_of(key, captures, self._calendar, self._soft.suspected)
