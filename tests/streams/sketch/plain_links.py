"""Extract links in plain Python, one after another, without compiled code or caches."""

from __future__ import annotations

from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

from state.codecs import link_chunk
from state.model import Link, LinkKind
from streams.sketch.link_records import BASE, HTTPS, IN_NAVIGATION, IS_CUT, KIND_SHIFT, NAVIGATION, NOFOLLOW, ODD
from streams.sketch.links import LinkExtractor

LINKS_PER_CHUNK, CHUNK_LINKS_MAX = 16, 64


class PlainExtractor(LinkExtractor):
    """Parses every tag in Python, as `LinkExtractor` parses unusual ones."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._parse = _mark_as_odd
        self._cut = cut

    def _parse_tags(self, data: bytes, rows: NDArray[np.int64], base: str) -> list[Any]:
        self._tags = {}
        return super()._parse_tags(data, rows, base)


def _mark_as_odd(*arguments: Any) -> tuple[int, int, int]:
    _, tags, first, *_, rows, odd_numbers = arguments
    number = first
    while number < len(tags) and tags[number, 0] % IN_NAVIGATION != BASE:
        odd_numbers[number - first] = number
        number += 1
    rows[first : number + 1] = ODD
    return number, number - first, 0


def cut(parts: list[bytes], rows: NDArray[np.int64], page_key: bytes) -> tuple[list[bytes], int]:
    """Cut records into chunks, as `link_chunker` does."""
    data, chunks, anchors_cut = b"".join(parts), [], 0
    chunk: dict[bytes, Link] = {}
    is_complete = was_navigation = False
    for start, target_end, anchor_start, end, flags in rows.tolist():
        if start < 0:
            continue
        link = Link(
            target=data[start:target_end],
            https=bool(flags & HTTPS),
            kind=LinkKind((flags & ~IS_CUT) >> KIND_SHIFT),
            anchor=data[anchor_start:end].decode(),
            nofollow=bool(flags & NOFOLLOW),
            navigation=bool(flags & NAVIGATION),
        )
        if link.target == page_key:
            continue
        if chunk and (is_complete or link.navigation is not was_navigation or len(chunk) >= CHUNK_LINKS_MAX):
            chunks.append(link_chunk.encode(list(chunk.values())))
            chunk = {}
        link_hash = mmh3.mmh3_x64_128_digest(data[start:end])[:8]
        chunk[link_hash] = link
        is_complete, was_navigation = link_hash[0] % LINKS_PER_CHUNK == 0, link.navigation
        anchors_cut += bool(flags & IS_CUT)
    return [*chunks, *([link_chunk.encode(list(chunk.values()))] if chunk else [])], anchors_cut
