"""Lives of URLs by key, the last ones kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.find.history import Calendar, Life, life_of
from streams.find.kept import Kept

if TYPE_CHECKING:
    from streams.find.copies import SoftErrors
    from streams.find.view import FindView


class Lives:
    """Reads lives of URLs: `of` takes every 2xx with text for a page; `checked`, at a cost, no soft 404."""

    def __init__(self, view: FindView, calendar: Calendar, soft: SoftErrors) -> None:
        self._view, self._calendar, self._soft = view, calendar, soft
        self.of: Kept[bytes, Life] = Kept(self._read, 16_384)

    def _read(self, keys: list[bytes]) -> list[Life]:
        histories = zip(keys, self._view.histories(keys), strict=True)
        return [life_of(key, captures, self._calendar, lambda _document, _key: False) for key, captures in histories]

    def checked(self, key: bytes) -> Life:
        """The life of a URL, its soft 404s taken for what they are."""
        (captures,) = self._view.histories([key])
        return life_of(key, captures, self._calendar, self._soft.suspected)
