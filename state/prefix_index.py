"""The prefix index of `captures`: which URLs have captures.

    key    MurmurHash3 of the prefix, 8 bytes       value  nothing

A prefix is the part of a row key up to and including its first NUL: the URL key and the NUL. RocksDB's filters only
contain prefixes of one length, so the store maintains the index in another column family. A page at a new URL then
needs no seek for earlier captures, because the whole-key filter of the index answers. A prefix is added in the write
that puts its first row, and removed in the write that deletes its last row.

Two prefixes with the same hash share an entry (one of 1.5 million states with five million prefixes has such a pair).
When the captures of one URL are deleted, the entry is removed, and the next page at the other URL becomes its first.

This module only computes keys; `state.store` reads and writes them.
"""

from __future__ import annotations

import mmh3

from state.families import Storage

COLUMN_FAMILY = "captures-prefixes"
STORAGE = Storage(bloom_bits=10, compression="none", block_kib=4)


def prefix_of(row: bytes) -> bytes:
    """Return the prefix of a row key; empty if the row key has no NUL."""
    return row[: row.find(b"\0") + 1]


def is_indexed(prefix: bytes) -> bool:
    """Return whether the index contains prefixes of this form, with a single NUL at the end."""
    return prefix != b"" and prefix_of(prefix) == prefix


def index_key(prefix: bytes) -> bytes:
    """Return the key of a prefix in the index."""
    return mmh3.hash_bytes(prefix)[:8]
