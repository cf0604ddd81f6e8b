"""Decide which title and text remain stored when their page is removed and the document stays.

The pages of a document have the same canonical tokens, but each page has its own title, capitals and punctuation. If
another page was served the same bytes, the stored text is as much that page's. Otherwise only the tokens remain,
which all pages have in common: no title, and the text folded as it is for its sketch. `find` compares folded texts
anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from state import meta
from state.codecs import text_row
from state.codecs.text_row import TextCodec
from state.families import Family
from state.model import Capture, Sketch
from state.rows import RowReader
from state.scheme import Scheme
from streams.sketch.sketcher import Sketcher


class RemainingTexts:
    """Reads stored texts and computes what remains of them."""

    def __init__(self, reader: RowReader, scheme: Scheme) -> None:
        self._reader = reader
        self._sketcher = Sketcher(scheme)
        self._codec = TextCodec(meta.dictionaries(reader))

    def after_removal(self, sketch: Sketch, removed: Sequence[Capture], remaining: Iterable[Capture]) -> bytes | None:
        """Return the new row of a document's text, empty to delete it; None if the row does not change.

        Both arguments are captures of the document. `remaining` is only read if the text is that of a removed page.
        """
        row = self._reader.get(Family.TEXTS, sketch.document)
        if row is None or text_row.source(row) not in {capture.raw for capture in removed}:
            return None
        return self.without_source(sketch, row, remaining)

    def without_source(self, sketch: Sketch, row: bytes, remaining: Iterable[Capture]) -> bytes:
        """Return the row of a text whose page is removed; empty if nothing remains."""
        source = text_row.source(row)
        same_bytes = next((capture for capture in remaining if capture.raw == source), None)
        return text_row.seen_at(row, same_bytes.time) if same_bytes else self._folded(sketch, row)

    def _folded(self, sketch: Sketch, row: bytes) -> bytes:
        # If the text was cut at `tokens_max`, the document is its first tokens; the rest belongs to the removed page.
        tokens = self._sketcher.canonical(self._codec.decode(row)[1]).split(" ")[: sketch.tokens]
        text = " ".join(tokens)
        # Folding a folded text has never been seen to change it; the result would be another document.
        same_document = self._sketcher.sketch(text).document == sketch.document
        return self._codec.encode("", text) if same_document else b""
