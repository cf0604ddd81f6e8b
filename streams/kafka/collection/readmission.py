"""Returning: what was taken away beside running stages, and a page that came in between still holds, brought again.

Forgetting reads a URL's history, and what it makes of it is taken later. In between a page may come that

    finds its text unchanged     and brings nothing but a capture, as the document is kept
    brings a kept document       and adds to it no more than a place, as all the rest is there

and then the document goes. What goes is therefore read before, and looked for once it is gone and everything that was
under way has come: whoever holds it then has it arrive once more, by the stages that any page goes through, which
make of it whatever is not there. A document that has come again by itself may have lost what others keep of it, its
postings and edges: it is announced once more.
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
from state.prefix_index import prefix_of
from state.store import Store
from streams.forgetting.remaining_text import TextsLeft
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.worker.stages import Context, Outcome
from streams.operators import routing
from streams.operators.lookups import Rows, known
from streams.operators.messages import BucketProbe, DocumentPayload, Sighting
from streams.sketch import sketcher
from streams.sketch.index_terms import index_samples, site_key

_AT_ONCE = 256
Sends = Mapping[tuple[Topic, int], Sequence[msgspec.Struct]]


class RemovedRows(msgspec.Struct, frozen=True):
    """What changes take away, as it was before them."""

    urls: set[bytes]  # whose captures go
    places: set[bytes]  # documents with the url keys that they go from
    rows: Rows  # of the documents that go altogether
    texts: Rows
    words: Mapping[bytes, set[bytes]]  # entries by the prefix of their document


def read_removed_rows(store: Store, parts: Iterable[Changes]) -> RemovedRows:
    """Read what changes will take away."""
    going: defaultdict[Family, set[bytes]] = defaultdict(set)
    for changes in parts:
        for family, keys in changes.deletes.items():
            going[family] |= keys
    words: defaultdict[bytes, set[bytes]] = defaultdict(set)
    for entry in going[Family.WORDS]:
        words[entry[-PREFIX_BYTES:]].add(entry[:-PREFIX_BYTES])
    return RemovedRows(
        {prefix_of(row)[:-1] for row in going[Family.CAPTURES]},
        going[Family.LOCATIONS],
        _read(store, Family.DOCUMENTS, going[Family.DOCUMENTS]),
        _read(store, Family.TEXTS, going[Family.DOCUMENTS]),
        words,
    )


def build_readmissions(store: Store, gone: RemovedRows, context: Context) -> Sends:
    """What is to come once more: sends, by topic and partition; none where nobody came in between."""
    documents = sorted(gone.rows)
    places = {
        place
        for part in _parts(documents)
        for rows in store.scan_prefixes(Family.LOCATIONS, part)
        for place, _ in rows
    }
    there = _read(store, Family.DOCUMENTS, {place[:ID_BYTES] for place in gone.places} | gone.rows.keys())
    located = _read(store, Family.LOCATIONS, gone.places).keys()
    texts = TextsLeft(store, context.settings.scheme)
    outcome = Outcome()
    for held in _holding(store, gone.urls | {place[ID_BYTES:] for place in places}, gone.places | places):
        document = held.document or b""
        if document in there and document + held.key in located | places:
            continue
        payload = _material(gone, held, texts, context) if document in gone.rows else None
        if payload is not None or document in there:
            words = sorted(gone.words.get(document[:PREFIX_BYTES], ()))
            at_site = b"".join(entry for entry in words if entry.startswith(site_key(held.key)))
            outcome.send([Sighting(document, held.key, held.time, at_site, payload)], context)
    for document in there.keys() & gone.rows.keys():
        outcome.send(_announcements(document, there[document], context), context)
    return outcome.sends


def _holding(store: Store, urls: Collection[bytes], places: Collection[bytes]) -> Iterator[Capture]:
    """Of each of some places the first capture that holds the document there."""
    for part in _parts(sorted(urls)):
        for rows in store.scan_prefixes(Family.CAPTURES, [capture_row.history(key) for key in part]):
            first: dict[bytes, Capture] = {}
            for held in (capture_row.decode(*row) for row in rows):
                if held.document and held.document + held.key in places:
                    kept = first.setdefault(held.document, held)
                    first[held.document] = min(kept, held, key=lambda each: each.time)
            yield from first.values()


def _material(gone: RemovedRows, held: Capture, texts: TextsLeft, context: Context) -> DocumentPayload:
    """A document as a page brings it, from the rows that were taken away."""
    document = held.document or b""
    row = gone.rows[document]
    sketch = document_row.decode(document, row).sketch
    text = gone.texts.get(document)
    return DocumentPayload(
        document,
        document_row.seen_at(row, held.time),
        _buckets(document, row, context),
        index_samples(sketch) if context.settings.policy.index_find else b"",
        texts.left(sketch, text, [held]) if text else b"",
    )


def _announcements(document: bytes, row: bytes, context: Context) -> list[BucketProbe]:
    buckets = _buckets(document, row, context)
    return routing.bucket_probes(document, buckets, context.bucket_bytes, context.partitions)


def _buckets(document: bytes, row: bytes, context: Context) -> bytes:
    signature = document_row.decode(document, row).sketch.signature
    return sketcher.buckets(np.array([signature]), context.settings.scheme).tobytes()


def _read(store: Store, family: Family, keys: Collection[bytes]) -> Rows:
    found: Rows = {}
    for part in _parts(sorted(keys)):
        found.update(known(store, family, part))
    return found


def _parts(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (keys[at : at + _AT_ONCE] for at in range(0, len(keys), _AT_ONCE))
