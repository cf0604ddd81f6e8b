"""A location's row in `locations`: when a URL was first seen with a document.

    key    document id 16 │ url key
    value  time 8 (ms since the epoch)

If there are several times, the earliest one is stored. The row remains when the URL later serves another document.
"""

from __future__ import annotations

import struct

from state.errors import StateCorrupt

_TIME = struct.Struct(">Q")


def encode(time: int) -> bytes:
    return _TIME.pack(time)


def decode(value: bytes) -> int:
    """Decode a time (ms). Raise StateCorrupt if the value is invalid."""
    if len(value) != _TIME.size:
        raise StateCorrupt(f"a location of {len(value)} bytes should have {_TIME.size}: cut short, or another format")
    return int(_TIME.unpack(value)[0])
