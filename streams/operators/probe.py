"""probe: nominates documents that share buckets with new documents as candidates, and adds the new documents.

A bucket stores the `postings_max` smallest prefixes ever added to it. This bottom-k set does not depend on the order
of arrival. A full bucket still nominates the documents that it stores, so a large cluster continues to grow, at a
bounded cost. The postings that full buckets drop are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.changes import Changes
from state.codecs import posting_list
from state.families import Family
from state.model import PREFIX_BYTES
from streams.operators.messages import BucketProbe, CandidatePair, DocumentPayload


class BucketBatch(msgspec.Struct, frozen=True, eq=False):
    """The distinct buckets of a batch of new documents, as columns.

    The documents in bucket `keys[i]` are `documents[j]` for each j in `indexes[starts[i]:starts[i + 1]]`.
    """

    documents: list[bytes]
    keys: list[bytes]  # ascending
    starts: NDArray[np.int64]
    indexes: NDArray[np.int64]


class ProbeResult(msgspec.Struct, frozen=True):
    changes: Changes
    pairs: list[CandidatePair]
    postings_dropped: int  # because buckets were full
    candidates_dropped: int  # because documents had more than `candidates_max`


def group_buckets(new_documents: Sequence[DocumentPayload | BucketProbe], bucket_bytes: int) -> BucketBatch:
    """Group equal buckets of a batch, so that each bucket is read and written once, in key order."""
    documents = [payload.document for payload in new_documents]
    if not documents:
        return BucketBatch([], [], np.zeros(1, np.int64), np.zeros(0, np.int64))
    table = np.frombuffer(b"".join(payload.buckets for payload in new_documents), np.uint8).reshape(-1, bucket_bytes)
    numbers = _as_numbers(table)
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    starts_of_keys = np.flatnonzero(np.append(True, sorted_numbers[1:] != sorted_numbers[:-1]))
    starts = np.append(starts_of_keys, len(order)).astype(np.int64)
    counts = [len(payload.buckets) // bucket_bytes for payload in new_documents]
    indexes = np.repeat(np.arange(len(documents)), counts)[order]
    # Viewed as void, each row becomes one bytes object that keeps its trailing zeros.
    keys = table[order[starts_of_keys]].view(f"V{bucket_bytes}").ravel().tolist()
    return BucketBatch(documents, keys, starts, indexes)


def probe(batch: BucketBatch, stored: Sequence[bytes | None], postings_max: int, candidates_max: int) -> ProbeResult:
    """Nominate candidates and add postings. `stored` contains the posting list, or None, for each of `batch.keys`.

    Each document gets at most `candidates_max` pairs: the candidates with the most collisions, best first.
    """
    assert len(stored) == len(batch.keys)
    changes = Changes()
    puts = changes.puts_of(Family.BANDS)
    prefixes = [document[:PREFIX_BYTES] for document in batch.documents]
    shared_buckets: list[tuple[list[int], bytes]] = []
    postings_dropped = 0
    starts, indexes = batch.starts.tolist(), batch.indexes.tolist()
    # Fast path: nearly every bucket of unrelated pages is empty and gets one document.
    is_empty = np.fromiter((value is None for value in stored), np.bool_, len(batch.keys))
    is_single = is_empty & (np.diff(batch.starts) == 1)
    single_indexes = batch.indexes[batch.starts[:-1][is_single]].tolist()
    puts.update(zip(compress(batch.keys, is_single.tolist()), [prefixes[i] for i in single_indexes], strict=True))
    for i in np.flatnonzero(~is_single).tolist():
        key, value = batch.keys[i], stored[i]
        new_indexes = indexes[starts[i] : starts[i + 1]]
        merged = sorted({*posting_list.decode(value or b""), *(prefixes[j] for j in new_indexes)})
        postings = b"".join(merged[:postings_max])
        postings_dropped += max(0, len(merged) - postings_max)
        if postings != value:
            puts[key] = postings
        shared_buckets.append((new_indexes, postings))
    pairs, candidates_dropped = _best_pairs(batch.documents, shared_buckets, candidates_max)
    return ProbeResult(changes, pairs, postings_dropped, candidates_dropped)


def _best_pairs(
    documents: list[bytes], shared_buckets: list[tuple[list[int], bytes]], candidates_max: int
) -> tuple[list[CandidatePair], int]:
    """Return each document's pairs with the most collisions, and the number of dropped pairs.

    In a tie, the pair with the smaller prefix is kept.

    `shared_buckets` contains, per bucket, the indexes of its new documents in `documents`, and its postings.
    """
    if not shared_buckets:
        return [], 0
    indexes, prefixes, collisions = _count_collisions(shared_buckets)
    own_prefixes = _as_numbers(_as_prefix_table([document[:PREFIX_BYTES] for document in documents]))
    is_other = prefixes != own_prefixes[indexes]
    indexes, prefixes, collisions = indexes[is_other], prefixes[is_other], collisions[is_other]
    order = np.lexsort((prefixes, -collisions, indexes))
    indexes, prefixes, collisions = indexes[order], prefixes[order], collisions[order]
    rank = np.arange(len(indexes)) - np.searchsorted(indexes, indexes)  # among the document's candidates
    best = rank < candidates_max
    columns = zip(indexes[best].tolist(), prefixes[best].tolist(), collisions[best].tolist(), strict=True)
    pairs = [CandidatePair(documents[i], prefix.to_bytes(PREFIX_BYTES, "big"), count) for i, prefix, count in columns]
    return pairs, len(indexes) - len(pairs)


def _count_collisions(
    shared_buckets: list[tuple[list[int], bytes]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return, for the pairs that share a bucket, three columns: document index, prefix as a number, and collisions.

    buckets     [([0], ab), ([0, 1], bc)]: document 0 meets postings a and b; documents 0 and 1 meet b and c
    collisions  (0, a) (0, b) (0, b) (0, c) (1, b) (1, c)
    result      (0, a): 1   (0, b): 2   (0, c): 1   (1, b): 1   (1, c): 1
    """
    distinct, codes = np.unique(
        _as_numbers(_as_prefix_table([postings for _, postings in shared_buckets])), return_inverse=True
    )
    sizes = np.array([len(postings) // PREFIX_BYTES for _, postings in shared_buckets], np.int64)
    starts = np.cumsum(sizes) - sizes
    buckets = np.repeat(np.arange(len(shared_buckets)), [len(indexes) for indexes, _ in shared_buckets])
    prefix_codes = codes[_concatenate_ranges(starts[buckets], sizes[buckets])]
    indexes = np.repeat(np.array([i for indexes, _ in shared_buckets for i in indexes], np.int64), sizes[buckets])
    pairs, collisions = np.unique(indexes * len(distinct) + prefix_codes, return_counts=True)
    pair_indexes, pair_codes = np.divmod(pairs, len(distinct))
    return pair_indexes, distinct[pair_codes], collisions


def _as_prefix_table(posting_lists: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return all prefixes in these posting lists as uint8[n, PREFIX_BYTES]."""
    return np.frombuffer(b"".join(posting_lists), np.uint8).reshape(-1, PREFIX_BYTES)


def _as_numbers(table: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Read each row, at most 7 bytes, as a big-endian number."""
    wide = np.zeros((len(table), 8), np.uint8)
    wide[:, 8 - table.shape[1] :] = table
    return wide.view(">i8").ravel().astype(np.int64)


def _concatenate_ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers start, start + 1, ..., start + size - 1 of all ranges, concatenated."""
    offsets = np.cumsum(sizes) - sizes
    shifts: NDArray[np.int64] = np.repeat(starts - offsets, sizes)
    return np.arange(len(shifts)) + shifts
