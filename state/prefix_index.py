"""The prefix index of a family: which URLs have captures.

    key    MurmurHash3 of the prefix with its NUL, 8 bytes       value  nothing

A prefix is the part of a row key up to and including the first NUL. RocksDB's filters know prefixes of one length
only, so the store maintains this index in a column family of its own: a new URL's captures need no seek, because the
whole-key filter of the index answers at once. A prefix is added in the write that puts its first row, and removed in
the write that deletes its last.

Two prefixes with the same hash (with five million, once in 1.5 million states) share an entry: deleting the captures
of one removes the entry of both, and the next page at the other counts as its first.

This module only computes keys; `state.store` reads and writes them.
"""

from __future__ import annotations

import mmh3

from state.families import STORAGE, Compression, Family, Storage

INDEXED = [family for family in Family if STORAGE[family].prefix_index]
INDEX_STORAGE = Storage(bloom_bits=10, compression=Compression.NONE, block_kib=4)


def column_family(family: Family) -> str:
    """Return the name of the column family that contains the index of a family."""
    return f"{family.value}-prefixes"


def prefix_of(key: bytes) -> bytes:
    """Return the prefix of a row key; empty if the key has no NUL."""
    return key[: key.find(b"\0") + 1]


def is_indexed(prefix: bytes) -> bool:
    """Whether the index answers for this prefix: it ends with its only NUL."""
    return prefix != b"" and prefix_of(prefix) == prefix


def index_key(prefix: bytes) -> bytes:
    """Return the key of a prefix in the index."""
    return mmh3.hash_bytes(prefix)[:8]
