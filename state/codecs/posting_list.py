"""The posting list of a bucket: the documents in it.

    key    band 1 B │ bins of the band 1 B each
    value  prefix 5 B │ prefix 5 B │ ...

A prefix is the first five bytes of a document id. Prefixes are sorted. The value has no version byte, which would
enlarge the family by 10%: a change of this layout increments the format version of the state.
"""

from __future__ import annotations

from state.errors import StateCorrupt
from state.model import PREFIX_BYTES


def encode(prefixes: list[bytes]) -> bytes:
    """Encode prefixes, which may be unsorted and contain duplicates."""
    assert all(len(prefix) == PREFIX_BYTES for prefix in prefixes)
    return b"".join(sorted(set(prefixes)))


def decode(value: bytes) -> list[bytes]:
    """Decode the prefixes, in ascending order. Raise StateCorrupt if the value is invalid."""
    if len(value) % PREFIX_BYTES:
        raise StateCorrupt(f"a posting list has {len(value)} bytes, expected a multiple of {PREFIX_BYTES}: truncated")
    return [value[i : i + PREFIX_BYTES] for i in range(0, len(value), PREFIX_BYTES)]


def union(first: bytes, second: bytes) -> bytes:
    return encode(decode(first) + decode(second))
