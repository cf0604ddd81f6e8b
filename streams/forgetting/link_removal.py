"""Delete the links of removed captures: lists to which no capture refers any more, and chunks that no page contains.

All rows of a page's links belong to the owner of the page's URL. On Kafka, the owner therefore deletes them itself
when it applies a retraction, because it sees the captures and chunks that were added since the retraction was
computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from state.changes import Changes
from state.codecs import capture_row, link_chunk, link_list
from state.families import Family
from state.rows import RowReader


def delete_links(reader: RowReader, changes: Changes) -> None:
    """Add to `changes` the deletions of links that follow from its deletions of captures."""
    lists = _unused_lists(reader, changes)
    removed_page_keys: dict[bytes, set[bytes]] = {}  # by chunk: the row keys of pages that no longer contain it
    for key, list_ids in lists.items():
        for chunk_id in _unused_chunks(reader, key, list_ids):
            removed_page_keys.setdefault(chunk_id, set()).add(link_chunk.page_key(chunk_id, key))
        changes.delete_all(Family.LINK_LISTS, {link_list.encode_key(key, list_id) for list_id in list_ids})
    for page_keys in removed_page_keys.values():
        changes.delete_all(Family.LINK_CHUNKS, page_keys)
    _delete_unused_chunks(reader, changes, removed_page_keys)


def _unused_lists(reader: RowReader, changes: Changes) -> dict[bytes, set[bytes]]:
    """Return the ids of the lists to which only deleted captures refer, by URL key."""
    deleted, puts = changes.deletes.get(Family.CAPTURES, set()), changes.puts_of(Family.CAPTURES)
    unused: dict[bytes, set[bytes]] = {}
    for key in sorted({capture_row.url_key_of(row_key) for row_key in deleted}):
        rows = dict(reader.scan(Family.CAPTURES, capture_row.history_prefix(key)))
        remaining = {row_key: value for row_key, value in rows.items() if row_key not in deleted} | {
            row_key: value for row_key, value in puts.items() if capture_row.url_key_of(row_key) == key
        }
        used = {capture_row.links_of(value) for value in remaining.values()}
        removed = {capture_row.links_of(value) for row_key, value in rows.items() if row_key in deleted}
        if ids := removed - used - {b""}:
            unused[key] = ids
    return unused


def _unused_chunks(reader: RowReader, key: bytes, unused_lists: Collection[bytes]) -> set[bytes]:
    """Return the chunks of a page's unused lists that none of its other lists contains."""
    unused: set[bytes] = set()
    used: set[bytes] = set()
    for row_key, value in reader.scan(Family.LINK_LISTS, link_list.encode_prefix(key)):
        is_unused = link_list.decode_key(row_key)[1] in unused_lists
        (unused if is_unused else used).update(link_list.decode(value))
    return unused - used


def _delete_unused_chunks(reader: RowReader, changes: Changes, removed_page_keys: dict[bytes, set[bytes]]) -> None:
    """Delete the chunks that only deleted pages contain, and the entries of these chunks in `link_targets`."""
    puts = changes.puts_of(Family.LINK_CHUNKS)
    new_pages = {row_key[: link_chunk.CHUNK_ID_BYTES] for row_key in puts}
    unused = [
        chunk_id
        for chunk_id in sorted(removed_page_keys)
        if chunk_id not in new_pages
        and all(key in removed_page_keys[chunk_id] for key in _page_keys(reader, chunk_id))
    ]
    for chunk_id, value in zip(unused, reader.get_many(Family.LINK_CHUNKS, unused), strict=True):
        if value is not None:
            changes.delete(Family.LINK_CHUNKS, chunk_id)
            changes.delete_all(Family.LINK_TARGETS, link_chunk.target_keys(value, chunk_id))


def _page_keys(reader: RowReader, chunk_id: bytes) -> Iterator[bytes]:
    keys = (row_key for row_key, _ in reader.scan(Family.LINK_CHUNKS, chunk_id))
    return (row_key for row_key in keys if len(row_key) > link_chunk.CHUNK_ID_BYTES)
