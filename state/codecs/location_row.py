"""A location's row in `locations`: when a document was first seen at a URL.

    key    document id 16 B │ url key
    value  time 8 B (ms since the epoch)

The row remains when the URL later serves a different document.
"""

from __future__ import annotations

import struct

from state.errors import StateCorrupt

_TIME = struct.Struct(">Q")


def encode(time: int) -> bytes:
    return _TIME.pack(time)


def decode(value: bytes) -> int:
    """Decode a time (ms). Raise StateCorrupt if the value has the wrong length."""
    if len(value) != _TIME.size:
        raise StateCorrupt(f"a location has {len(value)} bytes, expected {_TIME.size}: truncated, or not a location")
    return int(_TIME.unpack(value)[0])
