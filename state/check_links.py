"""The invariants of the links of pages, for `state check`.

    link_lists    can be decoded; a capture of the URL refers to the list; every chunk is stored, with a row for the
                  page
    link_chunks   can be decoded; the id is the hash of the links; at least one page has a row under the chunk; each
                  of these pages has a list that contains the chunk
    link_targets  a chunk with the prefix links to a URL with the hash

All rows of a page's links are in the partition that owns its URL.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from state.codecs import capture_row, link_chunk, link_list
from state.errors import StateCorrupt
from state.families import Family
from state.model import TARGET_HASH_BYTES
from state.rows import RowReader


def list_problems(store: RowReader, row: tuple[bytes, bytes, list[bytes]]) -> Iterator[str]:
    """Yield what is wrong with a list, given as its URL key, its id and the ids of its chunks."""
    key, list_id, chunk_ids = row
    captures = store.scan(Family.CAPTURES, capture_row.history_prefix(key))
    if all(capture_row.links_of(value) != list_id for _, value in captures):
        yield "no capture of the URL refers to this list"
    ids = sorted(set(chunk_ids))
    page_keys = [link_chunk.page_key(chunk_id, key) for chunk_id in ids]
    stored = store.get_many(Family.LINK_CHUNKS, [*ids, *page_keys])
    for chunk_id, chunk, page in zip(ids, stored, stored[len(ids) :], strict=False):
        if chunk is None:
            yield f"refers to chunk {chunk_id.hex()}, which is not stored"
        if page is None:
            yield f"chunk {chunk_id.hex()} has no row for this page"


def chunk_problems(store: RowReader, row: tuple[bytes, bytes, bytes]) -> Iterator[str]:
    """Yield what is wrong with a row of `link_chunks`, given as the chunk's id, a URL key or b"", and the value."""
    chunk_id, key, value = row
    if key:
        lists = store.scan(Family.LINK_LISTS, link_list.encode_prefix(key))
        if all(chunk_id not in link_list.decode(chunk_ids) for _, chunk_ids in lists):
            yield "no list of the page contains this chunk"
        return
    if link_chunk.compute_chunk_id(value) != chunk_id:
        yield "its id is not the hash of its links"
    if len(store.keys(Family.LINK_CHUNKS, chunk_id, 2)) < 2:
        yield "no page contains this chunk"
    target_keys = sorted(link_chunk.target_keys(value, chunk_id))
    for target_key, entry in zip(target_keys, store.get_many(Family.LINK_TARGETS, target_keys), strict=True):
        if entry is None:
            yield f"the entry {target_key.hex()} of one of its targets is missing"


def target_problems(store: RowReader, key: bytes) -> Iterator[str]:
    """Yield what is wrong with an entry in `link_targets`."""
    for chunk_key in store.keys(Family.LINK_CHUNKS, key[TARGET_HASH_BYTES:], 1 << 20):
        if len(chunk_key) != link_chunk.CHUNK_ID_BYTES:
            continue
        with suppress(StateCorrupt):  # reported for the chunk
            if key in link_chunk.target_keys(store.get(Family.LINK_CHUNKS, chunk_key) or b"", chunk_key):
                return
    yield "no chunk with this prefix links to a URL with this hash"


def decode_list(key: bytes, value: bytes) -> tuple[bytes, bytes, list[bytes]]:
    return (*link_list.decode_key(key), link_list.decode(value))


def decode_chunk(key: bytes, value: bytes) -> tuple[bytes, bytes, bytes]:
    chunk_id, url_key = key[: link_chunk.CHUNK_ID_BYTES], key[link_chunk.CHUNK_ID_BYTES :]
    if not url_key:
        link_chunk.decode(value)
    return chunk_id, url_key, value
