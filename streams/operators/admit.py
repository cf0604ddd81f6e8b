"""admit: stores a document when it is first seen, and the location of every URL where it is seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from state.changes import Changes
from state.codecs import document_row, location_row
from state.families import Family
from state.model import PREFIX_BYTES
from streams.operators.messages import DocumentPayload, Sighting

_SAMPLE_BYTES = 4
_WORD_BYTES = 8
Rows = Mapping[bytes, bytes]


class AdmitResult(msgspec.Struct, frozen=True):
    """The result of `admit`; `new` are the payloads of documents seen for the first time, in order."""

    changes: Changes
    new: list[DocumentPayload]


def needs(sightings: Sequence[Sighting]) -> tuple[list[bytes], list[bytes]]:
    """Return the document ids and the location keys whose rows `admit` needs, ascending."""
    documents = {sighting.document for sighting in sightings}
    return sorted(documents), sorted(sighting.document + sighting.key for sighting in sightings)


def admit(sightings: Sequence[Sighting], documents: Rows, locations: Rows, texts: Rows) -> AdmitResult:
    """Store the new documents and locations; `documents`, `locations` and `texts` are the rows stored already.

    A sighting without a payload is of a document that is stored, or that another sighting of the batch adds.
    """
    changes, new = Changes(), []
    for sighting in sightings:
        if _put_document(changes, sighting, documents):
            assert sighting.payload is not None
            new.append(sighting.payload)
        _put_text(changes, sighting, texts)
        _put_location(changes, sighting, locations)
        _put_entries(changes, Family.WORDS, sighting.words, _WORD_BYTES, sighting.document)
    return AdmitResult(changes, new)


def _put_document(changes: Changes, sighting: Sighting, stored: Rows) -> bool:
    """Put the row of a new document, or of a known one that this sighting precedes; return whether it is new."""
    rows = changes.family(Family.DOCUMENTS)
    row = rows.get(sighting.document) or stored.get(sighting.document)
    if row is not None:
        if document_row.first_seen(row) > sighting.time:
            rows[sighting.document] = document_row.seen_at(row, sighting.time)
        return False
    if sighting.payload is None:
        return False
    rows[sighting.document] = sighting.payload.row
    _put_entries(changes, Family.SAMPLES, sighting.payload.samples, _SAMPLE_BYTES, sighting.document)
    return True


def _put_text(changes: Changes, sighting: Sighting, stored: Rows) -> None:
    if sighting.payload is None or not sighting.payload.text:
        return
    rows = changes.family(Family.TEXTS)
    row = rows.get(sighting.document) or stored.get(sighting.document)
    if row is None or sighting.payload.text < row:  # rows of one text are ordered by the time of their page
        rows[sighting.document] = sighting.payload.text


def _put_location(changes: Changes, sighting: Sighting, stored: Rows) -> None:
    rows = changes.family(Family.LOCATIONS)
    location, first_seen = sighting.document + sighting.key, location_row.encode(sighting.time)
    row = rows.get(location) or stored.get(location)
    if row is None or first_seen < row:
        rows[location] = first_seen


def _put_entries(changes: Changes, family: Family, entries: bytes, width: int, document: bytes) -> None:
    rows, prefix = changes.family(family), document[:PREFIX_BYTES]
    for at in range(0, len(entries), width):
        rows[entries[at : at + width] + prefix] = b""


def find_copies(sightings: Sequence[Sighting], documents: Rows, locations: Rows) -> list[Sighting]:
    """Return the sightings of a known document at a URL that never had it; arguments as for `admit`."""
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
