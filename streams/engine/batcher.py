"""Divide the input into micro-batches of limited size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from streams.page import Page, Rejected
from streams.readers.dispatch import read, total_bytes
from streams.readers.position import InputMark, Position
from streams.readers.read_limits import ReadLimits
from streams.readers.read_options import ReadOptions
from streams.settings import Settings


class Batch(msgspec.Struct, frozen=True):
    """Items in input order, and the position after the last item."""

    items: list[Page | Rejected]
    position: Position
    mark: InputMark
    bytes_read: int  # total bytes of the input read so far, without pipes
    content_bytes: int  # bytes of the pages in the batch


class Batcher:
    """Iterates over the batches of an input, from a position (None: the start) to the end."""

    def __init__(
        self,
        file_names: Sequence[str],
        settings: Settings,
        position: Position | None,
        mark: InputMark | None,
        options: ReadOptions = ReadOptions(),  # noqa: B008 - immutable
    ) -> None:
        self.bytes_total = total_bytes(file_names, options)  # 0 for standard input
        self.report_read: Callable[[int], None] | None = None  # called after each item with the number of items
        self._limits = settings.ingest
        self._reader = read(file_names, ReadLimits.from_settings(settings), position, mark, options)

    @property
    def input_unchanged(self) -> bool:
        """Whether the input matches the `mark` of the constructor. Valid after the first batch, or at the end."""
        return self._reader.input_unchanged

    def has_more(self) -> bool:
        """Return whether there is an item after the position. The item is consumed, so no batch will contain it."""
        return next(self._reader, None) is not None

    def __iter__(self) -> Iterator[Batch]:
        items: list[Page | Rejected] = []
        content_bytes = 0
        for items_read, (position, item) in enumerate(self._reader, start=1):
            items.append(item)
            if self.report_read is not None:
                self.report_read(items_read)
            if isinstance(item, Page):
                content_bytes += len(item.body or item.text or "")
            if len(items) >= self._limits.batch_pages or content_bytes >= self._limits.batch_bytes:
                yield self._make_batch(items, position, content_bytes)
                items, content_bytes = [], 0
        if items:
            yield self._make_batch(items, position, content_bytes)

    def _make_batch(self, items: list[Page | Rejected], position: Position, content_bytes: int) -> Batch:
        mark = self._reader.mark()
        assert mark is not None, "a reader has a mark after its first item"
        return Batch(items, position, mark, self._reader.bytes_read, content_bytes)
