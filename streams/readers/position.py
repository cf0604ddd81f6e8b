"""Positions in the input, from which reading can resume."""

from __future__ import annotations

import msgspec

from streams.page import Page, Rejected


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The position right after an item: reading from it returns exactly the items that follow.

    `offset` is a byte offset in the file, or in `member`, a file inside a WACZ. In a compressed file it is the offset
    of a gzip member or zstd frame, and `inner` counts the decompressed bytes since its start. `line` is the number of
    the next line, for JSONL only.

    If the input ended within an item, or could not be read any further, then `cut` is set and this is the position of
    that item's start. The item is read again, and returned again if it has changed since.
    """

    source: str
    member: str = ""
    offset: int = 0
    inner: int = 0
    line: int = 0
    cut: bool = False


Item = tuple[Position, Page | Rejected]
