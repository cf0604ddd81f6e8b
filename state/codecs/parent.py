"""A document's links in `parents`: smaller documents of its cluster, the least of which is its parent.

    key    document id 16
    value  link 16 │ link 16 │ ...                         ascending, no count, no version: the length says all

Nearly every row has one link. Two workers of one partition, of which one had lost it and did not know, may each have
joined a root to another document; then both links stay, so that merging what they wrote loses no join.
"""

from __future__ import annotations

from state.values import ID_BYTES


def encode(links: list[bytes]) -> bytes:
    """Join links, ascending and without repeats."""
    return b"".join(sorted(set(links)))


def decode(value: bytes) -> list[bytes]:
    """Split a value into its links; the first is the parent."""
    if not value or len(value) % ID_BYTES:
        raise ValueError(f"{len(value)} bytes of links are no multiple of {ID_BYTES}: cut short")
    return [value[i : i + ID_BYTES] for i in range(0, len(value), ID_BYTES)]


def parent(value: bytes) -> bytes:
    """The least link."""
    return value[:ID_BYTES]


def union(old: bytes, new: bytes) -> bytes:
    """Links that either holds."""
    return encode(decode(old) + decode(new))
