"""Taking documents out of the buckets, and posting again those that they had crowded out.

A full bucket keeps the smallest prefixes, and says nothing of the others. What fell into it with a document that goes
is most often like that, and shares shingles that are sampled of both: the index of these names it. What is not named
there (none is shared, none is indexed, or more documents than are looked at share it) stays crowded out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from state import meta
from state.changes import Changes
from state.codecs import posting_list
from state.families import Family
from state.model import PREFIX_BYTES, Sketch
from state.rows import RowReader
from state.scheme import Scheme
from state.view import View
from streams.sketch import sketcher
from streams.sketch.index_terms import most_sampled

_AT_ONCE = 1_000
_POSTINGS_MAX = 4_096  # of a shingle


def unpost(store: RowReader, changes: Changes, gone: Mapping[bytes, Sketch], scheme: Scheme) -> None:
    """Take the postings of documents that go out of their buckets."""
    going: dict[bytes, set[bytes]] = {}
    for bucket, prefix in _postings(gone.values(), scheme):
        going.setdefault(bucket, set()).add(prefix)
    keys = sorted(going)
    rows = zip(keys, store.get_many(Family.BANDS, keys), strict=True)
    held = {key: set(posting_list.decode(value)) for key, value in rows if value}
    kept = {key: left for key, prefixes in held.items() if (left := prefixes - going[key]) != prefixes}
    least = meta.full_buckets(store)
    if full := {key for key in kept if least is not None and len(held[key]) >= least}:
        leaving = set[bytes]().union(*(going[key] for key in full))
        asking = [sketch for document, sketch in gone.items() if document[:PREFIX_BYTES] in leaving]
        for bucket, prefix in _postings(_alike(View(store), asking, gone), scheme):
            if bucket in full:
                kept[bucket].add(prefix)
    changes.delete_all(Family.BANDS, {bucket for bucket, prefixes in kept.items() if not prefixes})
    for bucket, prefixes in kept.items():
        if prefixes:
            changes.put(Family.BANDS, bucket, posting_list.encode(sorted(prefixes)[: len(held[bucket])]))


def _alike(view: View, asking: Iterable[Sketch], gone: Collection[bytes]) -> Iterator[Sketch]:
    """Documents that stay and share sampled shingles with some that go."""
    values = sorted({value for sketch in asking for value in most_sampled(sketch)})
    prefixes: set[bytes] = set()
    for at in range(0, len(values), _AT_ONCE):
        prefixes.update(*view.sample_postings(values[at : at + _AT_ONCE], _POSTINGS_MAX))
    named = sorted(prefixes)
    for at in range(0, len(named), _AT_ONCE):
        rows = view.documents_by_prefixes(named[at : at + _AT_ONCE])
        yield from (row.sketch for row in rows if row.sketch.document not in gone)


def _postings(sketches: Iterable[Sketch], scheme: Scheme) -> Iterator[tuple[bytes, bytes]]:
    """Each bucket of each document, with its prefix."""
    each = iter(sketches)
    while held := list(islice(each, _AT_ONCE)):
        found = sketcher.buckets(np.array([sketch.signature for sketch in held]), scheme)
        for sketch, buckets in zip(held, found, strict=True):
            for bucket in buckets:
                yield bucket.tobytes(), sketch.document[:PREFIX_BYTES]
