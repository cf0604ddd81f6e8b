"""admit: keeps a document the first time it is seen, and every URL that it is seen at."""

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


class Admitted(msgspec.Struct, frozen=True):
    """What `admit` makes of a batch: `new` holds the material of documents seen for the first time, in order."""

    changes: Changes
    new: list[DocumentPayload]


def needs(sightings: Sequence[Sighting]) -> tuple[list[bytes], list[bytes]]:
    """Document ids and location keys whose rows are asked for; of documents that are kept, the texts as well."""
    documents = {sighting.document for sighting in sightings}
    return sorted(documents), sorted(sighting.document + sighting.key for sighting in sightings)


def admit(
    sightings: Sequence[Sighting],
    documents: Mapping[bytes, bytes],
    locations: Mapping[bytes, bytes],
    texts: Mapping[bytes, bytes],
) -> Admitted:
    """Keep what is new; `documents`, `locations` and `texts` hold the rows that are there already.

    An arrival without material is of a document that is stored, or that another arrival brings.
    """
    changes = Changes()
    rows, places = changes.family(Family.DOCUMENTS), changes.family(Family.LOCATIONS)
    written, samples, words = (changes.family(f) for f in (Family.TEXTS, Family.SAMPLES, Family.WORDS))
    new: list[DocumentPayload] = []
    for sighting in sightings:
        document, payload = sighting.document, sighting.payload
        place, seen = document + sighting.key, location_row.encode(sighting.time)
        row = rows.get(document) or documents.get(document)
        if row is not None:
            if document_row.first_seen(row) > sighting.time:
                rows[document] = document_row.seen_at(row, sighting.time)
        elif payload is not None:
            new.append(payload)
            rows[document] = payload.row
            _index(samples, payload.samples, _SAMPLE_BYTES, document[:PREFIX_BYTES])
        if payload is not None and payload.text:
            kept = written.get(document) or texts.get(document)
            if kept is None or payload.text < kept:  # the codec says of which page
                written[document] = payload.text
        held = places.get(place) or locations.get(place)
        if held is None or seen < held:
            places[place] = seen
        _index(words, sighting.words, _WORD_BYTES, document[:PREFIX_BYTES])
    return Admitted(changes, new)


def copies(
    sightings: Sequence[Sighting], documents: Mapping[bytes, bytes], locations: Mapping[bytes, bytes]
) -> list[Sighting]:
    """Arrivals of a document that is known already at a URL that never held it; arguments as of `admit`."""
    known, places = set(documents), set(locations)
    found = []
    for sighting in sightings:
        place = sighting.document + sighting.key
        if sighting.document in known and place not in places:
            found.append(sighting)
        places.add(place)
        if sighting.payload is not None:
            known.add(sighting.document)
    return found


def _index(rows: dict[bytes, bytes], entries: bytes, width: int, prefix: bytes) -> None:
    for at in range(0, len(entries), width):
        rows[entries[at : at + width] + prefix] = b""
