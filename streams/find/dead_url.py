"""Describe a dead URL by the document that candidates are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from state.model import DocumentRow
    from streams.find.context import FindContext
    from streams.find.missing_rule import Life
    from streams.find.text_similarity import TextFeatures

_VERSIONS_READ = 8
_STUB_SHARE = 0.4  # a last version shorter than this share of the longest version is a stub


class DeadUrl(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The old URL, its document (`row`, None if it never had one), and the words of its text if texts are stored."""

    key: bytes
    url: str
    row: DocumentRow | None
    features: TextFeatures | None
    last_sweep: int
    missing_since: int  # sweep


def read_dead_url(context: FindContext, life: Life, missing_since: int) -> DeadUrl:
    """Describe a URL that is missing since a sweep."""
    row = _representative_row(context, life)
    return DeadUrl(
        key=life.key,
        url=(life.last_answer or life.refusals[-1]).url,
        row=row,
        features=context.texts.features_of(row.sketch.document) if row else None,
        last_sweep=life.last_page.sweep if life.last_page else missing_since,
        missing_since=missing_since,
    )


def _representative_row(context: FindContext, life: Life) -> DocumentRow | None:
    """Return the last document of a URL, or the longest version if the last one is a stub."""
    rows = [row for row in context.rows.many(life.documents_since(0)[-_VERSIONS_READ:]) if row is not None]
    if not rows:
        return None
    last = context.rows(life.last_page.document) if life.last_page and life.last_page.document else None
    longest = max(rows, key=lambda row: row.sketch.shingles)
    if last is None or last.sketch.shingles < _STUB_SHARE * longest.sketch.shingles:
        return longest
    return last
