"""probe: reads the buckets of new documents, nominates who is already there, and adds the new ones.

A bucket keeps the `postings_max` smallest prefixes ever added to it: a bottom-k set, so that what it holds in the
end does not depend on the order of arrival. One that is full is hot. It still nominates those it holds, so a
crowded cluster goes on joining at the cost of a small one; whoever it could not keep is counted.
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

    `keys` are the buckets, ascending; documents `rows[starts[i]:starts[i + 1]]` of the batch fell into bucket i.
    """

    documents: list[bytes]
    keys: list[bytes]
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]


class Probed(msgspec.Struct, frozen=True):
    """What `probe` makes of a batch."""

    changes: Changes
    pairs: list[CandidatePair]
    postings_dropped: int  # postings that a full bucket did not keep
    candidates_dropped: int  # candidates beyond `candidates_max`


def arrange(new: Sequence[DocumentPayload | BucketProbe], bucket_bytes: int) -> BucketBatch:
    """Group the buckets of a batch, so that each is read and written once, in key order."""
    documents = [payload.document for payload in new]
    if not new:
        return BucketBatch([], [], np.zeros(1, np.int64), np.zeros(0, np.int64))
    raw = b"".join(payload.buckets for payload in new)
    table = np.frombuffer(raw, np.uint8).reshape(-1, bucket_bytes)
    numbers = _numbers(table)
    order = np.argsort(numbers, kind="stable")
    ascending = numbers[order]
    scan_prefixes = np.flatnonzero(np.append(True, ascending[1:] != ascending[:-1]))
    starts = np.append(scan_prefixes, len(order)).astype(np.int64)
    counts = [len(payload.buckets) // bucket_bytes for payload in new]
    owners = np.repeat(np.arange(len(new)), counts)
    # Rows of raw bytes become one bytes object each, zeros at the end and all.
    keys = table[order[scan_prefixes]].view(f"V{bucket_bytes}").ravel().tolist()
    return BucketBatch(documents, keys, starts, owners[order])


def probe(batch: BucketBatch, held: Sequence[bytes | None], *, postings_max: int, candidates_max: int) -> Probed:
    """Nominate candidates and add postings; `held` is the value of each of `batch.keys`, or None.

    Each document gets at most `candidates_max` pairs, those of most collisions first.
    """
    changes = Changes()
    puts = changes.family(Family.BANDS)
    prefixes = [document[:PREFIX_BYTES] for document in batch.documents]
    nominations = _Nominations()
    postings_dropped = 0
    starts, rows = batch.starts.tolist(), batch.rows.tolist()
    # Nearly every bucket of unrelated pages: one document, and nobody there.
    absent = np.fromiter((value is None for value in held), np.bool_, len(batch.keys))
    single = absent & (np.diff(batch.starts) == 1)
    alone = batch.rows[batch.starts[:-1][single]].tolist()
    puts.update(zip(compress(batch.keys, single.tolist()), [prefixes[row] for row in alone], strict=True))
    for i in np.flatnonzero(~single).tolist():
        key, value = batch.keys[i], held[i]
        arriving = rows[starts[i] : starts[i + 1]]
        union = sorted({*posting_list.decode(value or b""), *(prefixes[row] for row in arriving)})
        kept = b"".join(union[:postings_max])
        postings_dropped += max(0, len(union) - postings_max)
        if kept != value:
            puts[key] = kept
        nominations.add(arriving, kept)
    pairs, candidates_dropped = nominations.best(batch.documents, candidates_max)
    return Probed(changes, pairs, postings_dropped, candidates_dropped)


class _Nominations:
    """Which documents of a batch met which postings; a bucket's postings are held once, however many met them."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.buckets: list[int] = []
        self.postings: list[bytes] = []

    def add(self, rows: list[int], postings: bytes) -> None:
        self.rows += rows
        self.buckets += [len(self.postings)] * len(rows)
        self.postings.append(postings)

    def best(self, documents: list[bytes], candidates_max: int) -> tuple[list[CandidatePair], int]:
        """For each document the prefixes that it met most often, ties by prefix; and how many more it met."""
        if not self.rows:
            return [], 0
        packed = np.frombuffer(b"".join(self.postings), np.uint8).reshape(-1, PREFIX_BYTES)
        names, which = np.unique(_numbers(packed), return_inverse=True)
        sizes = np.array([len(p) // PREFIX_BYTES for p in self.postings], np.int64)
        buckets = np.array(self.buckets, np.int64)
        met = which[_ranges(np.cumsum(sizes)[buckets] - sizes[buckets], sizes[buckets])]
        rows = np.repeat(np.array(self.rows, np.int64), sizes[buckets])
        codes, collisions = np.unique(rows * len(names) + met, return_counts=True)
        row, name = np.divmod(codes, len(names))
        own = _numbers(
            np.frombuffer(b"".join(d[:PREFIX_BYTES] for d in documents), np.uint8).reshape(-1, PREFIX_BYTES)
        )
        others = names[name] != own[row]
        row, name, collisions = row[others], name[others], collisions[others]
        order = np.lexsort((name, -collisions, row))
        row, name, collisions = row[order], name[order], collisions[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        first = place < candidates_max
        found = zip(row[first].tolist(), names[name[first]].tolist(), collisions[first].tolist(), strict=True)
        pairs = [CandidatePair(documents[r], n.to_bytes(PREFIX_BYTES, "big"), c) for r, n, c in found]
        return pairs, len(row) - len(pairs)


def _numbers(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Rows of up to 7 bytes as numbers, in the same order."""
    wide = np.zeros((len(rows), 8), np.uint8)
    wide[:, 8 - rows.shape[1] :] = rows
    return wide.view(">i8").ravel().astype(np.int64)


def _ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers start, start + 1, ..., start + size - 1 of each pair, one range after another."""
    before = np.cumsum(sizes) - sizes
    shifts: NDArray[np.int64] = np.repeat(starts - before, sizes)
    return np.arange(len(shifts)) + shifts
