"""link: writes the links of a page, in chunks that are stored once for all pages of a partition that share them.

All rows of a page's links belong to the owner of its URL, so a batch writes them together with the capture. A link is
found from its source by the capture, which names the list of the page's chunks, and from its target by a hash.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from state.changes import Changes
from state.codecs import link_chunk, link_list
from state.families import Family
from state.model import Capture
from streams.operators.messages import SketchedPage


class LinkResult(msgspec.Struct, frozen=True):
    """The changes, and how often a limit was reached."""

    changes: Changes
    dropped: int
    anchors_cut: int


def needs_links(page: SketchedPage, last_captures: Mapping[bytes, Capture]) -> bool:
    """Return whether the links of a page must be written: its URL's last capture had others.

    If the last capture names the same list, the rows of the list are stored.
    """
    last = last_captures.get(page.capture.key)
    return page.links is not None and (last is None or last.links != page.capture.links)


def chunk_ids(pages: Sequence[SketchedPage], last_captures: Mapping[bytes, Capture]) -> list[bytes]:
    """Return the sorted ids of the chunks that may have to be written. `link` needs to know which are stored."""
    pages_with_links = [page.links for page in pages if page.links is not None and needs_links(page, last_captures)]
    return sorted({link_chunk.chunk_id(chunk) for links in pages_with_links for chunk in links.chunks})


def link(
    pages: Sequence[SketchedPage], last_captures: Mapping[bytes, Capture], stored_chunks: Collection[bytes]
) -> LinkResult:
    """Write the links of each page whose URL had other links before. `stored_chunks` are ids."""
    changes, dropped, anchors_cut = Changes(), 0, 0
    chunk_rows, target_rows = changes.puts_of(Family.LINK_CHUNKS), changes.puts_of(Family.LINK_TARGETS)
    for page in pages:
        if page.links is None or not needs_links(page, last_captures):
            continue
        dropped += page.links.dropped
        anchors_cut += page.links.anchors_cut
        ids = [link_chunk.chunk_id(chunk) for chunk in page.links.chunks]
        key = link_list.encode_key(page.capture.key, page.capture.links)
        changes.put(Family.LINK_LISTS, key, link_list.encode(ids))
        for chunk_id, chunk in zip(ids, page.links.chunks, strict=True):
            chunk_rows[link_chunk.page_key(chunk_id, page.capture.key)] = b""
            if chunk_id not in stored_chunks and chunk_id not in chunk_rows:
                chunk_rows[chunk_id] = chunk
                target_rows.update(dict.fromkeys(link_chunk.target_keys(chunk, chunk_id), b""))
    return LinkResult(changes, dropped, anchors_cut)
