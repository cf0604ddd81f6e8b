"""The list of a page's links in `link_lists`.

    key    url key │ 00 │ list id 8 B
    value  version 1 B │ chunk id 8 B │ chunk id 8 B │ ...

The links of a page are cut into chunks (`state.codecs.link_chunk`), which pages share. The list contains the ids of
the chunks in the order of the page. The id of the list is a hash of these ids, and every capture with these links
contains it. A URL therefore has one row per version of its links, and its captures show when the page had them.
"""

from __future__ import annotations

from collections.abc import Sequence

import mmh3

from state.codecs.capture_row import LINK_LIST_ID_BYTES
from state.codecs.link_chunk import CHUNK_ID_BYTES
from state.errors import StateCorrupt

VERSION = 1


def compute_list_id(chunk_ids: Sequence[bytes]) -> bytes:
    """Return the id of the list of these chunks."""
    return mmh3.mmh3_x64_128_digest(b"".join(chunk_ids))[:LINK_LIST_ID_BYTES]


def encode_prefix(url_key: bytes) -> bytes:
    """Return the key prefix of all lists of a URL."""
    return url_key + b"\0"


def encode_key(url_key: bytes, list_id: bytes) -> bytes:
    assert b"\0" not in url_key, "a NUL terminates the URL key"
    assert len(list_id) == LINK_LIST_ID_BYTES
    return encode_prefix(url_key) + list_id


def decode_key(key: bytes) -> tuple[bytes, bytes]:
    """Split a row key into URL key and list id. Raise StateCorrupt if the key is invalid."""
    end = len(key) - LINK_LIST_ID_BYTES - 1
    if end < 1 or key.find(b"\0") != end:
        raise StateCorrupt(f"invalid row key of a list of links: {key[:80]!r}")
    return key[:end], key[end + 1 :]


def encode(chunk_ids: Sequence[bytes]) -> bytes:
    assert all(len(chunk_id) == CHUNK_ID_BYTES for chunk_id in chunk_ids)
    return bytes((VERSION,)) + b"".join(chunk_ids)


def decode(value: bytes) -> list[bytes]:
    """Decode the ids of the chunks. Raise StateCorrupt if the value is invalid."""
    if len(value) % CHUNK_ID_BYTES != 1 or value[0] != VERSION:
        raise StateCorrupt(
            f"invalid link list (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    return [value[i : i + CHUNK_ID_BYTES] for i in range(1, len(value), CHUNK_ID_BYTES)]
