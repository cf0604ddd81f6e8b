"""Lives of URLs by key, the last ones kept."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from streams.find.history import Calendar, Life, life_of

if TYPE_CHECKING:
    from streams.find.copies import SoftErrors
    from streams.find.view import FindView


class Lives:
    """Reads lives of URLs: `of` takes every 2xx with text for a page; `checked`, at a cost, no soft 404."""

    def __init__(self, view: FindView, calendar: Calendar, soft: SoftErrors) -> None:
        self._view, self._calendar, self._soft = view, calendar, soft
        self.of = lru_cache(maxsize=16_384)(self._read)

    def _read(self, key: bytes) -> Life:
        return life_of(key, self._view.captures(key), self._calendar, lambda _document, _key: False)

    def checked(self, key: bytes) -> Life:
        """The life of a URL, its soft 404s taken for what they are."""
        return life_of(key, self._view.captures(key), self._calendar, self._soft.suspected)
