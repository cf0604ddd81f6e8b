"""A decision's row in `decisions`: what an editor decided about a URL.

    key    url key │ 00
    value  version 1 B │ time 8 B (ms since the epoch) │ kind 1 B
           │ length of the old URL 2 B │ length of the new URL 2 B │ old URL │ new URL

    kind   1: moved   2: gone   3: removed

The new URL is empty unless the kind is 1. Values are ordered by time, so the greater of two values is the later
decision. A removed decision keeps its row; otherwise, an older decision that arrives late would take effect again.
"""

from __future__ import annotations

import struct

from state.errors import StateCorrupt
from state.model import Decision, DecisionKind

VERSION = 1
_HEAD = struct.Struct(">BQBHH")
_KEY_END = b"\0"
_URL_BYTES_MAX = 0xFFFF


def encode_key(url_key: bytes) -> bytes:
    """Return the row key of a URL key.

    The trailing NUL marks a complete key, so it cannot be mistaken for a scan prefix.
    """
    assert b"\0" not in url_key, "a NUL terminates the URL key"
    return url_key + _KEY_END


def encode(decision: Decision) -> bytes:
    old_url, new_url = (url.encode("utf-8", "surrogatepass") for url in (decision.old_url, decision.new_url or ""))
    assert bool(new_url) == (decision.kind is DecisionKind.MOVED), "only a moved page has a new URL"
    assert max(len(old_url), len(new_url)) <= _URL_BYTES_MAX, "the length of a URL must fit in two bytes"
    return _HEAD.pack(VERSION, decision.time, decision.kind, len(old_url), len(new_url)) + old_url + new_url


def decode(row_key: bytes, value: bytes) -> Decision:
    """Decode a decision from its row key and value. Raise StateCorrupt if either is invalid."""
    if len(row_key) < 2 or row_key.find(_KEY_END) != len(row_key) - 1:
        raise StateCorrupt(f"invalid row key of a decision: {row_key[:80]!r}")
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt(
            f"invalid decision (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    _, time, kind, old_length, new_length = _HEAD.unpack_from(value)
    size = _HEAD.size + old_length + new_length
    if len(value) != size:
        raise StateCorrupt(f"corrupt decision: {len(value)} bytes, but its header implies {size}")
    if kind not in set(DecisionKind) or bool(new_length) != (kind == DecisionKind.MOVED):
        raise StateCorrupt(f"invalid decision: kind {kind} with a new URL of {new_length} bytes")
    try:
        old_url, new_url = (
            part.decode("utf-8", "surrogatepass")
            for part in (value[_HEAD.size : _HEAD.size + old_length], value[_HEAD.size + old_length :])
        )
    except UnicodeDecodeError as error:
        raise StateCorrupt(f"a URL of a decision is not UTF-8: {error}") from error
    return Decision(key=row_key[:-1], kind=DecisionKind(kind), time=time, old_url=old_url, new_url=new_url or None)
