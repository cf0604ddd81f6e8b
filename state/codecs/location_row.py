"""Where a document is or was, in `locations`.

    key    document id 16 │ url key
    value  time 8 (ms since the epoch)

The time is when the URL was first seen to hold the document; of two the smaller is kept.
"""

from __future__ import annotations

import struct

from state.errors import StateCorrupt

_SEEN = struct.Struct(">Q")


def encode(seen: int) -> bytes:
    """The value for a URL that was first seen to hold a document at this time, ms."""
    return _SEEN.pack(seen)


def decode(value: bytes) -> int:
    """When the URL was first seen to hold the document, ms."""
    if len(value) != _SEEN.size:
        raise StateCorrupt(f"a location of {len(value)} bytes should have {_SEEN.size}")
    return int(_SEEN.unpack(value)[0])
