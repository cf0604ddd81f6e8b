"""admit: keeps a document the first time it is seen, and every URL that it is seen at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from state.changes import Changes
from state.codecs import document as codec
from state.codecs import location
from state.families import Family
from state.values import PREFIX_BYTES
from streams.values import Arrival, Material

_SAMPLE_BYTES = 4
_WORD_BYTES = 8


class Admitted(msgspec.Struct, frozen=True):
    """What `admit` makes of a batch: `new` holds the material of documents seen for the first time, in order."""

    changes: Changes
    new: list[Material]


def needs(arrivals: Sequence[Arrival]) -> tuple[list[bytes], list[bytes]]:
    """Document ids and location keys whose rows are asked for; of documents that are kept, the texts as well."""
    documents = {arrival.document for arrival in arrivals}
    return sorted(documents), sorted(arrival.document + arrival.key for arrival in arrivals)


def admit(
    arrivals: Sequence[Arrival],
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
    new: list[Material] = []
    for arrival in arrivals:
        document, material = arrival.document, arrival.material
        place, seen = document + arrival.key, location.encode(arrival.time)
        row = rows.get(document) or documents.get(document)
        if row is not None:
            if codec.first_seen(row) > arrival.time:
                rows[document] = codec.seen_at(row, arrival.time)
        elif material is not None:
            new.append(material)
            rows[document] = material.row
            _index(samples, material.samples, _SAMPLE_BYTES, document[:PREFIX_BYTES])
        if material is not None and material.text:
            kept = written.get(document) or texts.get(document)
            if kept is None or material.text < kept:  # the codec says of which page
                written[document] = material.text
        held = places.get(place) or locations.get(place)
        if held is None or seen < held:
            places[place] = seen
        _index(words, arrival.words, _WORD_BYTES, document[:PREFIX_BYTES])
    return Admitted(changes, new)


def copies(
    arrivals: Sequence[Arrival], documents: Mapping[bytes, bytes], locations: Mapping[bytes, bytes]
) -> list[Arrival]:
    """Arrivals of a document that is known already at a URL that never held it; arguments as of `admit`."""
    known, places = set(documents), set(locations)
    found = []
    for arrival in arrivals:
        place = arrival.document + arrival.key
        if arrival.document in known and place not in places:
            found.append(arrival)
        places.add(place)
        if arrival.material is not None:
            known.add(arrival.document)
    return found


def _index(rows: dict[bytes, bytes], entries: bytes, width: int, prefix: bytes) -> None:
    for at in range(0, len(entries), width):
        rows[entries[at : at + width] + prefix] = b""
