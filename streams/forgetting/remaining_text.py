"""Decide which title and text remain stored when their page is removed and the document stays.

The pages of a document have the same canonical tokens, but titles, capitals and punctuation can differ. If another
page consists of the same bytes, the stored text is also the text of that page. Otherwise only the common tokens
remain: no title, and the text folded as for its sketch. `find` compares folded texts anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from state import meta
from state.changes import Changes
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

    def update(
        self, changes: Changes, sketch: Sketch, removed: Sequence[Capture], remaining: Iterable[Capture]
    ) -> None:
        """Change or delete the text of a document if it comes from a removed page.

        `removed` and `remaining` are captures of the document. `remaining` is read only if the text has to change.
        """
        row = self._reader.get(Family.TEXTS, sketch.document)
        if row is None or text_row.source(row) not in {capture.raw for capture in removed}:
            return
        if new_row := self.row_without_source(sketch, row, remaining):
            changes.put(Family.TEXTS, sketch.document, new_row)
        else:
            changes.delete(Family.TEXTS, sketch.document)

    def row_without_source(self, sketch: Sketch, row: bytes, remaining: Iterable[Capture]) -> bytes:
        """Return the row of a text whose page is removed; empty if nothing remains."""
        source = text_row.source(row)
        same_bytes = next((capture for capture in remaining if capture.raw == source), None)
        return text_row.with_time(row, same_bytes.time) if same_bytes else self._folded(sketch, row)

    def _folded(self, sketch: Sketch, row: bytes) -> bytes:
        # If the text was cut at `tokens_max`, the document is its first tokens; the rest belongs to the removed page.
        tokens = self._sketcher.canonical(self._codec.decode(row)[1]).split(" ")[: sketch.tokens]
        text = " ".join(tokens)
        # If folding changed a folded text again (no such text is known), its tokens would be another document's.
        same_document = self._sketcher.sketch(text).document == sketch.document
        return self._codec.encode("", text) if same_document else b""
