"""Readmit documents that a retraction deleted while a page with the same text was in flight.

Forgetting computes changes from the history of a URL, and they are applied later. Before the document is deleted,
other pages with the same document may arrive:

    at a URL that had the document   only a capture is added, because the document is stored
    at a different URL               only a capture and a location are added, because the rest is stored

Therefore the rows to be deleted are read first. Once they are deleted and all messages in flight are processed, each
remaining capture of a deleted document is sent through the stages again, which add the missing rows. A document that
was already admitted again may have lost postings and edges, so its buckets are probed again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from state.changes import Changes
from state.codecs import capture_row, document_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture
from state.rows import RowReader
from streams.forgetting.remaining_text import RemainingTexts
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.worker.stages import Context, Outcome
from streams.operators import routing
from streams.operators.lookups import Rows, read_rows
from streams.operators.messages import DocumentPayload, Sighting
from streams.sketch import sketcher
from streams.sketch.index_terms import sample_entries, site_hash

_BATCH_KEYS = 256
Messages = Mapping[tuple[Topic, int], Sequence[msgspec.Struct]]  # by topic and partition


class RemovedRows(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that a retraction deletes, read before the deletion."""

    url_keys: set[bytes]  # of the deleted captures
    location_keys: set[bytes]  # each consists of a document id and a URL key
    documents: Rows
    texts: Rows
    words: Mapping[bytes, set[bytes]]  # site and word of each word-index entry, by document prefix


def read_removed_rows(store: RowReader, retraction_changes: Iterable[Changes]) -> RemovedRows:
    """Read the rows that a retraction will delete."""
    deletes: defaultdict[Family, set[bytes]] = defaultdict(set)
    for changes in retraction_changes:
        for family, keys in changes.deletes.items():
            deletes[family] |= keys
    words: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for entry in deletes[Family.WORDS]:
        words[entry[-PREFIX_BYTES:]].add(entry[:-PREFIX_BYTES])
    return RemovedRows(
        url_keys={capture_row.url_key_of(key) for key in deletes[Family.CAPTURES]},
        location_keys=deletes[Family.LOCATIONS],
        documents=_read_rows(store, Family.DOCUMENTS, deletes[Family.DOCUMENTS]),
        texts=_read_rows(store, Family.TEXTS, deletes[Family.DOCUMENTS]),
        words=words,
    )


def build_readmissions(store: RowReader, removed: RemovedRows, context: Context) -> Messages:
    """Return the messages that readmit documents. There are some only if pages raced with the retraction."""
    new_locations = {  # locations of deleted documents, added by pages in flight
        key
        for batch in _batches(removed.documents)
        for rows in store.rows_under(Family.LOCATIONS, batch)
        for key, _ in rows
    }
    stored_locations = new_locations | _read_rows(store, Family.LOCATIONS, removed.location_keys).keys()
    document_ids = {location[:ID_BYTES] for location in removed.location_keys} | removed.documents.keys()
    stored_documents = _read_rows(store, Family.DOCUMENTS, document_ids)
    texts = RemainingTexts(store, context.settings.scheme)
    url_keys = removed.url_keys | {location[ID_BYTES:] for location in new_locations}
    outcome = Outcome(context)
    for capture in _first_captures(store, url_keys, removed.location_keys | new_locations):
        document = capture.document or b""
        if document in stored_documents and document + capture.key in stored_locations:
            continue
        payload = _new_payload(removed, capture, texts, context) if document in removed.documents else None
        if payload is not None or document in stored_documents:
            words = sorted(removed.words.get(document[:PREFIX_BYTES], ()))
            site_words = b"".join(entry for entry in words if entry.startswith(site_hash(capture.key)))
            sighting = Sighting(
                document=document, key=capture.key, time=capture.time, words=site_words, payload=payload
            )
            outcome.queue([sighting])
    for document in stored_documents.keys() & removed.documents.keys():
        buckets = _compute_buckets(document, stored_documents[document], context)
        outcome.queue(routing.bucket_probes(document, buckets, context.bucket_bytes, context.partition_count))
    return outcome.messages


def _first_captures(
    store: RowReader, url_keys: Collection[bytes], location_keys: Collection[bytes]
) -> Iterator[Capture]:
    """Yield the first capture at each of these locations. `url_keys` are the keys of the locations' URLs."""
    for batch in _batches(url_keys):
        for rows in store.rows_under(Family.CAPTURES, [capture_row.history_prefix(key) for key in batch]):
            first_captures: dict[bytes, Capture] = {}  # by document
            for capture in (capture_row.decode(*row) for row in rows):
                if capture.document and capture.document + capture.key in location_keys:
                    earliest = first_captures.setdefault(capture.document, capture)
                    first_captures[capture.document] = min(earliest, capture, key=lambda capture: capture.time)
            yield from first_captures.values()


def _new_payload(removed: RemovedRows, capture: Capture, texts: RemainingTexts, context: Context) -> DocumentPayload:
    """Return the payload of a deleted document, as if the page of a capture had just arrived."""
    document = capture.document or b""
    row = removed.documents[document]
    sketch = document_row.decode(document, row).sketch
    text_row = removed.texts.get(document)
    return DocumentPayload(
        document=document,
        row=document_row.with_first_seen(row, capture.time),
        buckets=_compute_buckets(document, row, context),
        samples=sample_entries(sketch) if context.settings.policy.index_find else b"",
        text=texts.row_after_removal(sketch, text_row, [capture]) if text_row else b"",
    )


def _compute_buckets(document: bytes, row: bytes, context: Context) -> bytes:
    signature = document_row.decode(document, row).sketch.signature
    return sketcher.cut_into_buckets(np.array([signature]), context.settings.scheme).tobytes()


def _read_rows(store: RowReader, family: Family, keys: Collection[bytes]) -> Rows:
    rows: Rows = {}
    for batch in _batches(keys):
        rows.update(read_rows(store, family, batch))
    return rows


def _batches(keys: Iterable[bytes]) -> Iterator[Sequence[bytes]]:
    sorted_keys = sorted(keys)
    return (sorted_keys[start : start + _BATCH_KEYS] for start in range(0, len(sorted_keys), _BATCH_KEYS))
