"""The posting list of a bucket: the documents in it.

    key    band 1 │ rows of the signature, 1 each         (6 bytes with five rows)
    value  prefix 5 │ prefix 5 │ ...                      ascending; the length implies the count

A prefix is the first five bytes of a document id. The value has no version byte, which would
enlarge the family by 10 %. The format version of the state covers the layout.
"""

from __future__ import annotations

from state.errors import StateCorrupt
from state.model import PREFIX_BYTES


def encode(prefixes: list[bytes]) -> bytes:
    """Encode prefixes, which can be unsorted and repeated."""
    assert all(len(prefix) == PREFIX_BYTES for prefix in prefixes)
    return b"".join(sorted(set(prefixes)))


def decode(value: bytes) -> list[bytes]:
    """Decode the prefixes, ascending. Raise StateCorrupt if the value is invalid."""
    if len(value) % PREFIX_BYTES:
        raise StateCorrupt(f"a posting list of {len(value)} bytes is not a multiple of {PREFIX_BYTES}: cut short")
    return [value[i : i + PREFIX_BYTES] for i in range(0, len(value), PREFIX_BYTES)]


def union(one: bytes, other: bytes) -> bytes:
    return encode(decode(one) + decode(other))
