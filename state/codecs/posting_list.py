"""Postings of a bucket: the documents that fell into it.

    key    band 1 │ rows of the signature, 1 each         (6 bytes with five rows)
    value  prefix 5 │ prefix 5 │ ...                       ascending, no count, no version: the length says all

A prefix is the first five bytes of a document id. The layout carries no version byte, since it would cost a tenth
of the largest family; the store's format version covers it.
"""

from __future__ import annotations

from state.errors import StateCorrupt
from state.model import PREFIX_BYTES


def encode(prefixes: list[bytes]) -> bytes:
    """Join prefixes, ascending and without repeats."""
    return b"".join(sorted(set(prefixes)))


def decode(value: bytes) -> list[bytes]:
    """Split a value into its prefixes."""
    if len(value) % PREFIX_BYTES:
        raise StateCorrupt(f"{len(value)} bytes of postings do not divide by {PREFIX_BYTES}: cut short")
    return [value[i : i + PREFIX_BYTES] for i in range(0, len(value), PREFIX_BYTES)]


def union(old: bytes, new: bytes) -> bytes:
    """Postings that either holds."""
    return encode(decode(old) + decode(new))
