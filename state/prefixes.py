"""Which prefixes there are of a family whose rows are sought by what stands before a NUL: URLs with captures.

    key    MurmurHash3 of the prefix with its NUL 8       value  nothing
    key    nothing: the row that says that none is missing

A new URL's captures need not be sought then: a filter answers at once, as it could not of prefixes of every length. A
prefix is listed in the write that brings its first row and taken out in the one that deletes its last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import mmh3

from state.families import STORAGE, Compression, Family, Storage

LISTED = [family for family in Family if STORAGE[family].listed]
STORED = Storage(bloom_bits=10, compression=Compression.NONE, block_kib=4)
_END = b"\0"
_WHOLE = b""


def list_of(family: Family) -> str:
    """The name of the column family that lists a family's prefixes."""
    return f"{family.value}-prefixes"


class Prefixes:
    """The list of one family, in an open database."""

    def __init__(self, db: Any, family: Family) -> None:
        self.family: Any = db.get_column_family(list_of(family))
        self._handle = db.get_column_family_handle(list_of(family))

    def whole(self) -> bool:
        """Whether the list lacks none."""
        return self.family.get(_WHOLE) is not None

    def have(self, prefixes: Sequence[bytes]) -> list[bool]:
        """Whether there may be rows under each: of one that ends where those listed do, whether it is listed."""
        listed = self.family.get([_listing(prefix) for prefix in prefixes])
        return [
            each is not None or prefix.partition(_END)[1:] != (_END, b"")
            for each, prefix in zip(listed, prefixes, strict=True)
        ]

    def add(self, batch: Any, keys: Iterable[bytes], *, whole: bool = False) -> None:
        """List the prefixes of these keys within a write, and that there are no others."""
        for listing in sorted(map(_listing, prefixes_of(keys))):
            batch.put(listing, b"", self._handle)
        if whole:
            batch.put(_WHOLE, b"", self._handle)

    def remove(self, batch: Any, prefixes: Iterable[bytes]) -> None:
        """Take prefixes out within a write that leaves no rows under them."""
        for prefix in prefixes:
            batch.delete(_listing(prefix), self._handle)


def prefixes_of(keys: Iterable[bytes]) -> set[bytes]:
    """The prefixes that these keys have."""
    return {key[: key.find(_END) + 1] for key in keys}


def _listing(prefix: bytes) -> bytes:
    return mmh3.hash_bytes(prefix)[:8]
