"""Remove deleted documents from their buckets, and add the documents that full buckets had dropped.

A full bucket contains the smallest prefixes and no trace of the dropped documents. A dropped document is usually
similar to the deleted documents of its bucket, and is found by the indexed samples that it shares with them. It is
not found if it shares no indexed sample with them, or only samples of more than `_POSTINGS_MAX` documents.
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
from streams.sketch.index_terms import most_divisible_shingles

_CHUNK = 1_000  # keys per look-up, or sketches per computation
_POSTINGS_MAX = 4_096  # at most this many documents are read per indexed sample


def remove_postings(reader: RowReader, changes: Changes, deleted: Mapping[bytes, Sketch], scheme: Scheme) -> None:
    """Remove the postings of deleted documents, and refill the buckets that were full."""
    deleted_postings: dict[bytes, set[bytes]] = {}
    for bucket, prefix in _postings(deleted.values(), scheme):
        deleted_postings.setdefault(bucket, set()).add(prefix)
    buckets = sorted(deleted_postings)
    rows = zip(buckets, reader.get_many(Family.BANDS, buckets), strict=True)
    stored = {bucket: set(posting_list.decode(value)) for bucket, value in rows if value}
    remaining = {bucket: prefixes - deleted_postings[bucket] for bucket, prefixes in stored.items()}
    changed = {bucket: prefixes for bucket, prefixes in remaining.items() if prefixes != stored[bucket]}
    full_size = meta.smallest_full_bucket_size(reader)
    if full_buckets := {bucket for bucket in changed if full_size is not None and len(stored[bucket]) >= full_size}:
        prefixes_in_full = set[bytes]().union(*(deleted_postings[bucket] for bucket in full_buckets))
        sketches = [sketch for document, sketch in deleted.items() if document[:PREFIX_BYTES] in prefixes_in_full]
        for bucket, prefix in _postings(_find_similar_sketches(View(reader), sketches, deleted), scheme):
            if bucket in full_buckets:
                changed[bucket].add(prefix)
    for bucket, prefixes in changed.items():
        if prefixes:
            changes.put(Family.BANDS, bucket, posting_list.encode(sorted(prefixes)[: len(stored[bucket])]))
        else:
            changes.delete(Family.BANDS, bucket)


def _find_similar_sketches(view: View, sketches: Iterable[Sketch], deleted: Collection[bytes]) -> Iterator[Sketch]:
    """Yield the sketches of remaining documents that share indexed samples with `sketches`."""
    samples = sorted({sample for sketch in sketches for sample in most_divisible_shingles(sketch)})
    similar_prefixes: set[bytes] = set()
    for start in range(0, len(samples), _CHUNK):
        similar_prefixes.update(*view.sample_postings(samples[start : start + _CHUNK], _POSTINGS_MAX))
    prefixes = sorted(similar_prefixes)
    for start in range(0, len(prefixes), _CHUNK):
        rows = view.documents_by_prefixes(prefixes[start : start + _CHUNK])
        yield from (row.sketch for row in rows if row.sketch.document not in deleted)


def _postings(sketches: Iterable[Sketch], scheme: Scheme) -> Iterator[tuple[bytes, bytes]]:
    """Yield each document's postings: pairs of a bucket and the prefix of the document id."""
    iterator = iter(sketches)
    while chunk := list(islice(iterator, _CHUNK)):
        chunk_buckets = sketcher.cut_into_buckets(np.array([sketch.signature for sketch in chunk]), scheme)
        for sketch, buckets in zip(chunk, chunk_buckets, strict=True):
            for bucket in buckets:
                yield bucket.tobytes(), sketch.document[:PREFIX_BYTES]
