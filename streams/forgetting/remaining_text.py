"""Decide which title and text to keep for a document when the page that they came from is removed.

The pages of a document have the same canonical tokens, but their titles, capitalisation and punctuation may differ.
If a remaining page has the same bytes as the removed page, the title and text stay. Otherwise the title is deleted,
and the text is replaced by its canonical tokens, which all pages share. `find` compares only such tokens anyway.
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
    """Computes the rows of texts whose pages are removed."""

    def __init__(self, reader: RowReader, scheme: Scheme) -> None:
        self._reader = reader
        self._sketcher = Sketcher(scheme)
        self._codec = TextCodec(meta.dictionaries(reader))

    def update(
        self, changes: Changes, sketch: Sketch, removed: Sequence[Capture], remaining: Iterable[Capture]
    ) -> None:
        """Change or delete the stored text of a document if the text comes from a removed page.

        `removed` and `remaining` are captures of the document. `remaining` is iterated over only if the text has to
        change.
        """
        row = self._reader.get(Family.TEXTS, sketch.document)
        if row is None:
            return
        if (text_row.source(row), text_row.time_of(row)) not in {(c.raw_fingerprint, c.time) for c in removed}:
            return
        if new_row := self.row_after_removal(sketch, row, remaining):
            changes.put(Family.TEXTS, sketch.document, new_row)
        else:
            changes.delete(Family.TEXTS, sketch.document)

    def row_after_removal(self, sketch: Sketch, row: bytes, remaining: Iterable[Capture]) -> bytes:
        """Return the new row of a text whose page is removed, or b"" if nothing remains."""
        source = text_row.source(row)
        identical_capture = next((capture for capture in remaining if capture.raw_fingerprint == source), None)
        return (
            text_row.with_time(row, identical_capture.time) if identical_capture else self._canonical_row(sketch, row)
        )

    def _canonical_row(self, sketch: Sketch, row: bytes) -> bytes:
        # If the text was cut at `tokens_max`, only its first tokens make up the document.
        tokens = self._sketcher.canonical_text(self._codec.decode(row)[1]).split(" ")[: sketch.tokens]
        text = " ".join(tokens)
        # Delete a text that would become a different document when it is tokenised again (no such text is known).
        same_document = self._sketcher.sketch(text).document == sketch.document
        return self._codec.encode("", text) if same_document else b""
