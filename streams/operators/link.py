"""link: writes the links of a page, in chunks. A chunk is stored once per partition, whichever pages contain it.

All rows of a page's links belong to the owner of its URL, so a batch writes them together with the capture. To find
the links of a page, start from its capture, which names the page's list of chunks. To find the links to a page, look
up the hash of its URL.
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
    """The changes, and the numbers of links and anchors to which limits were applied."""

    changes: Changes
    links_dropped: int  # links beyond `limits.links_max`, or whose URL is too long
    anchors_cut: int  # anchors longer than `limits.anchor_chars_max`


def must_write_links(page: SketchedPage, last_captures: Mapping[bytes, Capture]) -> bool:
    """Return whether a page has links to write, because the last capture of its URL did not have the same links.

    If the last capture names the same list, the rows of this list are already stored.
    """
    last = last_captures.get(page.capture.key)
    return page.links is not None and (last is None or last.links != page.capture.links)


def chunk_ids(pages: Sequence[SketchedPage], last_captures: Mapping[bytes, Capture]) -> list[bytes]:
    """Return the sorted ids of the chunks that `link` may have to write.

    The caller of `link` must tell it which of these chunks are already stored.
    """
    pages_with_links = [
        page.links for page in pages if page.links is not None and must_write_links(page, last_captures)
    ]
    return sorted({link_chunk.compute_chunk_id(chunk) for links in pages_with_links for chunk in links.chunks})


def link(
    pages: Sequence[SketchedPage], last_captures: Mapping[bytes, Capture], stored_chunks: Collection[bytes]
) -> LinkResult:
    """Write the links of each page unless the last capture of its URL had the same links.

    `stored_chunks` contains the ids of the chunks that are already stored.
    """
    changes, links_dropped, anchors_cut = Changes(), 0, 0
    chunk_rows, new_chunks = changes.puts_of(Family.LINK_CHUNKS), dict[bytes, bytes]()
    for page in pages:
        if page.links is None or not must_write_links(page, last_captures):
            continue
        links_dropped += page.links.dropped
        anchors_cut += page.links.anchors_cut
        ids = [link_chunk.compute_chunk_id(chunk) for chunk in page.links.chunks]
        key = link_list.encode_key(page.capture.key, page.capture.links)
        changes.put(Family.LINK_LISTS, key, link_list.encode(ids))
        for chunk_id, chunk in zip(ids, page.links.chunks, strict=True):
            chunk_rows[link_chunk.page_key(chunk_id, page.capture.key)] = b""
            if chunk_id not in stored_chunks:
                new_chunks[chunk_id] = chunk
    if new_chunks:
        from streams.sketch import chunk_reader  # loading numba takes half a second

        chunk_rows.update(new_chunks)
        changes.puts_of(Family.LINK_TARGETS).update(dict.fromkeys(chunk_reader.target_keys(new_chunks), b""))
    return LinkResult(changes, links_dropped, anchors_cut)
