"""List decisions, optionally with the rank that the ranking gave to the new URL, as data for training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from state.model import Decision
from state.view import View
from streams.urls import url_key

if TYPE_CHECKING:
    from streams.find import Finder


class ListedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, with field names that `read_decisions` accepts."""

    old: str
    new: str | None  # None: the page is gone
    decided_at: int  # ms since the epoch, UTC
    # The position of the new URL among the candidates that `find` would rank if there were no decision; the first is
    # 1. None: the new URL is not a candidate, the old URL is alive, or the page is gone. UNSET: not computed.
    rank: int | UnsetType | None = UNSET


def list_decisions(view: View, finder: Finder | None = None) -> Iterator[ListedDecision]:
    """Yield all decisions in the order of their URL keys. If there is a finder, also yield their ranks."""
    for decision in view.all_decisions():
        rank = UNSET if finder is None else _rank(decision, finder)
        yield ListedDecision(old=decision.old_url, new=decision.new_url, decided_at=decision.time, rank=rank)


def _rank(decision: Decision, finder: Finder) -> int | None:
    if decision.new_url is None:
        return None
    new_key = url_key(decision.new_url)
    ranked_keys = map(url_key, finder.ranked_urls(decision.old_url))
    return next((rank for rank, key in enumerate(ranked_keys, 1) if key == new_key), None)
