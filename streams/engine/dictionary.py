"""Train the compression dictionary for stored texts once the state contains enough texts."""

from __future__ import annotations

from itertools import islice

from state import meta
from state.changes import Changes
from state.codecs.text_row import train
from state.families import Family
from state.rows import RowStore
from state.view import View

TRAINING_DOCUMENTS = 1_000  # training starts when so many documents are stored, and reads so many texts


class TextDictionary:
    """The newest dictionary of a state. If there is none, `number` is 0 and `data` is empty."""

    def __init__(self, store: RowStore, *, keep_texts: bool) -> None:
        dictionaries = meta.dictionaries(store)
        self.number = max(dictionaries, default=0)
        self.data = dictionaries.get(self.number, b"")
        self._store = store
        self._is_due = keep_texts and not dictionaries

    def train_if_due(self, document_count: int) -> None:
        """Train and store a dictionary if the state has none and enough documents. Try only once per run."""
        if not self._is_due or document_count < TRAINING_DOCUMENTS:
            return
        self._is_due = False
        view = View(self._store)
        texts = islice(self._store.scan(Family.TEXTS), TRAINING_DOCUMENTS)
        if data := train([view.decode_text(row)[1] for _, row in texts]):
            self.number, self.data = 1, data
            changes = Changes()
            meta.put_dictionary(changes, self.number, data)
            self._store.write(changes, sync=True)
