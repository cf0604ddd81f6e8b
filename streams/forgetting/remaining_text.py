"""What is kept of a document's title and text when the capture that they are of goes, and the document stays.

Its pages have the same canonical tokens; titles, capitals and signs are each page's own. Where a page that stays was
served the same bytes, the text is as much that page's. Otherwise only the tokens are left, which all of them say: no
title, and the text folded as it is for its sketch. `find` compares folded texts anyway.
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


class TextsLeft:
    """Reads kept texts and makes what is left of them."""

    def __init__(self, store: RowReader, scheme: Scheme) -> None:
        self.store = store
        self.sketcher = Sketcher(scheme)
        self.codec = TextCodec(meta.dictionaries(store))

    def of(self, sketch: Sketch, going: Sequence[Capture], staying: Iterable[Capture]) -> bytes | None:
        """The row that is left of a document's text, empty for none at all; None where it stays as it is.

        `going` and `staying` are captures of the document; those that stay are looked at only when the text is of
        one that goes. A row of an earlier version does not say whose it is, and stays.
        """
        value = self.store.get(Family.TEXTS, sketch.document)
        if value is None or text_row.source(value) not in {c.raw for c in going}:
            return None
        return self.left(sketch, value, staying)

    def left(self, sketch: Sketch, value: bytes, staying: Iterable[Capture]) -> bytes:
        """The row that is left of a text, whose page goes; empty for none at all."""
        source = text_row.source(value)
        alike = next((c for c in staying if c.raw == source), None)
        return text_row.seen_at(value, alike.time) if alike else self._folded(sketch, value)

    def _folded(self, sketch: Sketch, value: bytes) -> bytes:
        # A document is its first tokens, where it has more than `tokens_max`: the rest is the page's own again.
        tokens = self.sketcher.canonical(self.codec.decode(value)[1]).split(" ")[: sketch.tokens]
        text = " ".join(tokens)
        # Never seen to differ; were there a text whose folding folds further, it would be another document's.
        same = self.sketcher.sketch(text).document == sketch.document
        return self.codec.encode("", text) if same else b""
