"""Positions in the input: where reading resumes."""

from __future__ import annotations

import msgspec

from streams.page import Page, Rejected


class Position(msgspec.Struct, frozen=True):
    """The place right after an item; reading from there gives the items that follow it, exactly.

    `offset` is a byte offset in the file (or in `member`, a file inside a WACZ): of the gzip member or zstd frame in
    compressed ones, where `inner` counts the unpacked bytes since. `line` is the number of the next line, JSONL only.
    Where the input ended within an item, or could not be read on, the place is the beginning of that item, which was
    `cut`: it is read again, and given again if it has become another since.
    """

    source: str
    member: str = ""
    offset: int = 0
    inner: int = 0
    line: int = 0
    cut: bool = False


Item = tuple[Position, Page | Rejected]
