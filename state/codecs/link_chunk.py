"""A chunk of links in `link_chunks`, and the entries of its targets in `link_targets`.

    key    chunk id 8 B
    value  version 1 B │ link │ link │ ...                 the links of a chunk
    key    chunk id 8 B │ url key                          a page that contains the chunk; no value
    key    target hash 4 B │ first 5 B of the chunk id     an entry in `link_targets`; no value

    link   flags 1 B │ shared varint │ length varint │ rest of the target │ [length varint │ anchor]
    flags  the kind (3 bits)   8: https   16: nofollow   32: navigation   64: has an anchor

The first `shared` bytes of a target's URL key are those of the previous target in the chunk. The id is a hash of the
value, so a chunk that many pages share, such as a site's navigation, is stored once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mmh3

from state.errors import StateCorrupt
from state.model import TARGET_HASH_BYTES, Link, LinkKind

VERSION = 1
CHUNK_ID_BYTES = 8
CHUNK_PREFIX_BYTES = 5
_KINDS = tuple(LinkKind)  # indexing this tuple is several times faster than calling `LinkKind`
_KIND_MASK, HTTPS, NOFOLLOW, NAVIGATION, HAS_ANCHOR = 7, 8, 16, 32, 64
_RESERVED_FLAG = 128
_VARINT_BYTES_MAX = 4
_VERSION_BYTE = bytes((VERSION,))
_ONE_BYTE = [bytes((number,)) for number in range(0x80)]
_DAMAGED = f"invalid link chunk (expected version {VERSION}): truncated, or from a newer version of lostfound"


def compute_chunk_id(value: bytes) -> bytes:
    """Return the id of a chunk with this value."""
    return mmh3.mmh3_x64_128_digest(value)[:CHUNK_ID_BYTES]


def page_key(chunk_id: bytes, url_key: bytes) -> bytes:
    """Return the key of the row that records that a page contains a chunk."""
    return chunk_id + url_key


def target_hash(url_key: bytes) -> bytes:
    """Return the hash used to look up the chunks with links to a URL."""
    return mmh3.mmh3_x64_128_digest(url_key)[:TARGET_HASH_BYTES]


def target_key(url_key: bytes, chunk_id: bytes) -> bytes:
    """Return the key of the entry in `link_targets` for a link to a URL."""
    return target_hash(url_key) + chunk_id[:CHUNK_PREFIX_BYTES]


def target_keys(value: bytes, chunk_id: bytes) -> set[bytes]:
    """Return the keys of all `link_targets` entries for a chunk. Raise StateCorrupt if the value is invalid."""
    prefix = chunk_id[:CHUNK_PREFIX_BYTES]
    return {target_hash(target) + prefix for _, target, _ in _decode_fields(value)}


def encode(links: Sequence[Link]) -> bytes:
    parts, previous = [_VERSION_BYTE], b""
    for link in links:
        target, anchor = link.target, link.anchor.encode("utf-8", "replace")
        flags = link.kind | HTTPS * link.https | NOFOLLOW * link.nofollow | NAVIGATION * link.navigation
        if anchor:
            flags |= HAS_ANCHOR
        shared = _common_prefix_length(previous, target)
        length = len(target) - shared
        if shared <= 0x7F and length <= 0x7F:
            parts += (bytes((flags, shared, length)), target[shared:])
        else:
            parts += (bytes((flags,)), _varint(shared), _varint(length), target[shared:])
        if anchor:
            parts += (_varint(len(anchor)), anchor)
        previous = target
    return b"".join(parts)


def decode(value: bytes) -> list[Link]:
    """Decode links. Raise StateCorrupt if the value is invalid."""
    try:
        return [_link(*fields) for fields in _decode_fields(value)]
    except (IndexError, ValueError) as error:
        raise StateCorrupt(_DAMAGED) from error


def _link(flags: int, target: bytes, anchor: bytes) -> Link:
    return Link(
        target=target,
        https=bool(flags & HTTPS),
        kind=_KINDS[flags & _KIND_MASK],
        anchor=anchor.decode("utf-8"),
        nofollow=bool(flags & NOFOLLOW),
        navigation=bool(flags & NAVIGATION),
    )


def _decode_fields(value: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the flags, the target and the anchor of each link."""
    if not value or value[0] != VERSION:
        raise StateCorrupt(_DAMAGED)
    offset, target, end = 1, b"", len(value)
    try:
        while offset < end:
            flags, shared, length = value[offset : offset + 3]
            offset += 3
            if flags & _RESERVED_FLAG:
                raise StateCorrupt(_DAMAGED)
            if shared > 0x7F or length > 0x7F:  # at least one of the two takes more than one byte
                shared, offset = _read_varint(value, offset - 2)
                length, offset = _read_varint(value, offset)
            start, offset = offset, offset + length
            if shared > len(target) or offset > end:
                raise StateCorrupt(_DAMAGED)
            target = target[:shared] + value[start:offset]
            anchor = b""
            if flags & HAS_ANCHOR:
                length, start = value[offset], offset + 1
                if length > 0x7F:
                    length, start = _read_varint(value, offset)
                offset = start + length
                anchor = value[start:offset]
            yield flags, target, anchor
    except (IndexError, ValueError) as error:
        raise StateCorrupt(_DAMAGED) from error
    if offset != end:
        raise StateCorrupt(_DAMAGED)


def _common_prefix_length(first: bytes, second: bytes) -> int:
    length = min(len(first), len(second))
    differences = int.from_bytes(first[:length], "big") ^ int.from_bytes(second[:length], "big")
    return length - (differences.bit_length() + 7) // 8


def _varint(number: int) -> bytes:
    """Encode a number as LEB128: seven bits per byte, least significant first."""
    if number <= 0x7F:
        return _ONE_BYTE[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _read_varint(value: bytes, offset: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it."""
    number = 0
    for position in range(_VARINT_BYTES_MAX):
        byte = value[offset + position]
        number |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return number, offset + position + 1
    raise StateCorrupt(_DAMAGED)
