"""The prefix index of `captures`: which URLs have captures.

    key    MurmurHash3 of the prefix, 8 bytes
    value  nothing

A prefix is the part of a row key up to and including its first NUL: the URL key and the NUL. RocksDB's own filters
support only prefixes of one length, so the store maintains the index in a separate column family. The whole-key
filter of the index tells when a URL is new, which saves a seek for earlier captures. A prefix is added in the write
that puts its first row, and removed in the write that deletes its last row.

Two prefixes with the same hash share an entry (expected in one of 1.5 million states with five million prefixes).
If all captures of one of the two URLs are then deleted, the next page of the other URL does not find its earlier
captures.

This module only computes keys; `state.store` reads and writes them.
"""

from __future__ import annotations

import mmh3

from state.families import Storage

COLUMN_FAMILY = "captures-prefixes"
STORAGE = Storage(bloom_bits=10, compression="none", block_kib=4)


def prefix_of(row_key: bytes) -> bytes:
    """Return the prefix of a row key; empty if the row key has no NUL."""
    return row_key[: row_key.find(b"\0") + 1]


def is_indexable(prefix: bytes) -> bool:
    """Return whether a prefix has the form of indexed prefixes: a single NUL, at the end."""
    return prefix != b"" and prefix_of(prefix) == prefix


def index_key(prefix: bytes) -> bytes:
    return mmh3.hash_bytes(prefix)[:8]
