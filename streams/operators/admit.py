"""admit: stores a document when it is first seen, and a location for every URL at which it is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from state.changes import Changes
from state.codecs import document_row, location_row
from state.families import Family
from state.model import PREFIX_BYTES
from streams.operators.messages import DocumentPayload, Sighting

_SAMPLE_ENTRY_BYTES = 4
_WORD_ENTRY_BYTES = 8
Rows = Mapping[bytes, bytes]


def row_keys(sightings: Sequence[Sighting]) -> tuple[list[bytes], list[bytes]]:
    """Return the sorted document ids and the sorted location keys. `admit` needs their rows."""
    document_ids = {sighting.document for sighting in sightings}
    return sorted(document_ids), sorted(sighting.document + sighting.key for sighting in sightings)


def admit(
    sightings: Sequence[Sighting], documents: Rows, locations: Rows, texts: Rows
) -> tuple[Changes, list[DocumentPayload]]:
    """Return the changes that store new documents and locations, and the payloads of the new documents.

    `documents`, `locations` and `texts` are the stored rows by key. If a sighting has no payload, its document is
    already stored or is added by another sighting in the batch.
    """
    changes, new_payloads = Changes(), []
    for sighting in sightings:
        document, payload = sighting.document, sighting.payload
        if _put_document(changes, sighting, documents):
            assert payload is not None
            new_payloads.append(payload)
        if payload is not None and payload.text:
            _put_earlier(changes, Family.TEXTS, document, payload.text, texts)
        first_seen = location_row.encode(sighting.time)
        _put_earlier(changes, Family.LOCATIONS, document + sighting.key, first_seen, locations)
        _put_entries(changes, Family.WORDS, sighting.words, _WORD_ENTRY_BYTES, document)
    return changes, new_payloads


def _put_document(changes: Changes, sighting: Sighting, stored: Rows) -> bool:
    """Put a new document, or the earlier first-seen time of a known document. Return whether the document is new."""
    rows = changes.puts_of(Family.DOCUMENTS)
    row = rows.get(sighting.document) or stored.get(sighting.document)
    if row is not None:
        if document_row.first_seen(row) > sighting.time:
            rows[sighting.document] = document_row.with_first_seen(row, sighting.time)
        return False
    if sighting.payload is None:
        return False
    rows[sighting.document] = sighting.payload.row
    _put_entries(changes, Family.SAMPLES, sighting.payload.samples, _SAMPLE_ENTRY_BYTES, sighting.document)
    return True


def _put_earlier(changes: Changes, family: Family, key: bytes, value: bytes, stored: Rows) -> None:
    """Put a row unless the existing value has an earlier time. In these families, values are sorted by time."""
    rows = changes.puts_of(family)
    row = rows.get(key) or stored.get(key)
    if row is None or value < row:
        rows[key] = value


def _put_entries(changes: Changes, family: Family, entries: bytes, entry_bytes: int, document: bytes) -> None:
    """Put a row without a value for each entry; its key is the entry and the document's prefix."""
    rows, prefix = changes.puts_of(family), document[:PREFIX_BYTES]
    for start in range(0, len(entries), entry_bytes):
        rows[entries[start : start + entry_bytes] + prefix] = b""


def find_copies(sightings: Sequence[Sighting], documents: Rows, locations: Rows) -> list[Sighting]:
    """Return the sightings of known documents at new locations. Pass the arguments of `admit`, except `texts`."""
    known_documents, known_locations = set(documents), set(locations)
    copies = []
    for sighting in sightings:
        location = sighting.document + sighting.key
        if sighting.document in known_documents and location not in known_locations:
            copies.append(sighting)
        known_locations.add(location)
        if sighting.payload is not None:
            known_documents.add(sighting.document)
    return copies
