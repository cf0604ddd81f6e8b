"""A user's options for reading one input: the names of columns, a folder of HTML, and the time of pages."""

from __future__ import annotations

import msgspec

from streams.page import Page, with_default_time
from streams.readers.html_folder import HtmlFolder
from streams.readers.page_line import PageLine, mapped_line_type
from streams.readers.position import PositionedItem


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for reading. `columns` maps our field names to the input's column names.

    `time` (ms) replaces the file times in an HTML folder. In other formats, it is the time of pages that have none.
    """

    columns: dict[str, str] = {}
    html_folder: HtmlFolder | None = None
    time: int = 0

    @property
    def url_column(self) -> str:
        return self.columns.get("url", "url")

    def line_type(self) -> type[PageLine]:
        """Return the type of a line. Raise InputError if a name in `columns` is unknown."""
        return mapped_line_type(self.columns)

    def with_time(self, positioned_item: PositionedItem) -> PositionedItem:
        """Return an item, with its time replaced by the option `time` if the option applies to the item."""
        position, item = positioned_item
        if not self.time or not isinstance(item, Page):
            return positioned_item
        if self.html_folder:
            return position, msgspec.structs.replace(item, time=self.time)
        return position, with_default_time(item, self.time)

    def identity(self) -> str:
        """Return a string that is equal only for options that read files in the same way; "" for the defaults."""
        return "" if self == ReadOptions() else msgspec.json.encode(self, order="sorted").decode()
