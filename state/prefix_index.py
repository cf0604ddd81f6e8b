"""Which prefixes there are of a family whose rows are sought by what stands before a NUL: URLs with captures.

    key    MurmurHash3 of the prefix with its NUL 8       value  nothing
    key    nothing                                        value  nothing, when none is missing;
                                                                 the last key listed, of a family that had no list

Two prefixes of one hash (with five million, once in 1.5 million states) are listed as one: forgetting the one forgets
both, and the next page at the other is taken for its first.

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
_PROGRESS = b""


def list_of(family: Family) -> str:
    """The name of the column family that lists a family's prefixes."""
    return f"{family.value}-prefixes"


class Prefixes:
    """The list of one family, in an open database."""

    def __init__(self, db: Any, family: Family) -> None:
        self.family: Any = db.get_column_family(list_of(family))
        self._handle: Any = db.get_column_family_handle(list_of(family))

    def close(self) -> None:
        """Let go of the database."""
        self.family = self._handle = None

    def whole(self) -> bool:
        """Whether the list lacks none."""
        return self.begin() is None

    def begin(self) -> bytes | None:
        """The key from which the family's rows are still to be listed; None when none is missing."""
        done: bytes | None = self.family.get(_PROGRESS)
        if done is None:
            return b""
        return done + b"\0" if done else None

    def go_on(self, batch: Any, keys: Sequence[bytes]) -> None:
        """List the prefixes of the next rows within a write; no rows: that is all of them."""
        self.add(batch, keys)
        batch.put(_PROGRESS, keys[-1] if keys else b"", self._handle)

    def may_have(self, prefixes: Sequence[bytes]) -> list[bool]:
        """Whether there may be rows under each: of one that ends where those listed do, whether it is listed."""
        listed = self.family.get([_listing(prefix) for prefix in prefixes])
        return [
            each is not None or prefix_of(prefix) != prefix or not prefix
            for each, prefix in zip(listed, prefixes, strict=True)
        ]

    def add(self, batch: Any, keys: Iterable[bytes]) -> None:
        """List the prefixes of these keys within a write."""
        for listing in sorted(map(_listing, {prefix_of(key) for key in keys})):
            batch.put(listing, b"", self._handle)

    def remove(self, batch: Any, prefixes: Iterable[bytes]) -> None:
        """Take prefixes out within a write that leaves no rows under them."""
        for prefix in prefixes:
            batch.delete(_listing(prefix), self._handle)


def prefix_of(key: bytes) -> bytes:
    """The prefix of a key; empty where it holds no NUL."""
    return key[: key.find(_END) + 1]


def _listing(prefix: bytes) -> bytes:
    return mmh3.hash_bytes(prefix)[:8]
