"""probe: reads the buckets of new documents, nominates who is already there, and adds the new ones.

A bucket keeps the `postings_max` smallest prefixes ever added to it: a bottom-k set, so that what it holds in the
end does not depend on the order of arrival. One that is full is hot. It still nominates those it holds, so a
crowded cluster goes on joining at the cost of a small one; whoever it could not keep is counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.changes import Changes
from state.codecs import posting
from state.families import Family
from state.values import PREFIX_BYTES
from streams.values import Material, Pair


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
    pairs: list[Pair]
    crowded_out: int  # postings that a full bucket did not keep


def arrange(new: Sequence[Material], bucket_bytes: int) -> BucketBatch:
    """Group the buckets of a batch, so that each is read and written once, in key order."""
    documents = [material.document for material in new]
    if not new:
        return BucketBatch([], [], np.zeros(1, np.int64), np.zeros(0, np.int64))
    raw = b"".join(material.buckets for material in new)
    table = np.frombuffer(raw, np.uint8).reshape(-1, bucket_bytes)
    wide = np.zeros((len(table), 8), np.uint8)
    wide[:, 8 - bucket_bytes :] = table
    numbers = wide.view(">u8").ravel().astype(np.uint64)
    order = np.argsort(numbers, kind="stable")
    _, firsts = np.unique(numbers[order], return_index=True)
    starts = np.append(firsts, len(order)).astype(np.int64)
    each = len(table) // len(new)
    keys = [raw[at : at + bucket_bytes] for at in (order[firsts] * bucket_bytes).tolist()]
    return BucketBatch(documents, keys, starts, order // each)


def probe(batch: BucketBatch, held: Sequence[bytes | None], *, postings_max: int, candidates_max: int) -> Probed:
    """Nominate candidates and add postings; `held` is the value of each of `batch.keys`, or None.

    Each document gets at most `candidates_max` pairs, those of most collisions first.
    """
    changes = Changes()
    puts = changes.family(Family.BANDS)
    prefixes = [document[:PREFIX_BYTES] for document in batch.documents]
    asking: list[int] = []
    nominated: list[bytes] = []
    crowded_out = 0
    starts, rows = batch.starts.tolist(), batch.rows.tolist()
    for i, (key, value) in enumerate(zip(batch.keys, held, strict=True)):
        start, end = starts[i], starts[i + 1]
        if value is None and end - start == 1:
            puts[key] = prefixes[rows[start]]  # nearly every bucket of unrelated pages
            continue
        before = posting.decode(value) if value else []
        arriving = rows[start:end]
        union = sorted({*before, *(prefixes[row] for row in arriving)})
        kept = union[:postings_max]
        crowded_out += len(union) - len(kept)
        if kept != before:
            puts[key] = b"".join(kept)
        for row in arriving:
            asking.extend([row] * len(kept))
            nominated.extend(kept)
    return Probed(changes, _rank(batch.documents, asking, nominated, candidates_max), crowded_out)


def _rank(documents: list[bytes], asking: list[int], nominated: list[bytes], candidates_max: int) -> list[Pair]:
    """Count the collisions of each (document, prefix) and keep the best of each document."""
    if not asking:
        return []
    prefixes = np.frombuffer(b"".join(b"\0\0\0" + p for p in nominated), ">u8").astype(np.uint64)
    who = np.asarray(asking, np.uint64)
    names, which = np.unique(prefixes, return_inverse=True)
    codes, collisions = np.unique(who * np.uint64(len(names)) + which.astype(np.uint64), return_counts=True)
    row, name = np.divmod(codes, np.uint64(len(names)))
    order = np.lexsort((name, -collisions, row))
    pairs: list[Pair] = []
    current, taken = -1, 0
    for at in order.tolist():
        asks = int(row[at])
        if asks != current:
            current, taken = asks, 0
        prefix = int(names[int(name[at])]).to_bytes(PREFIX_BYTES, "big")
        if taken >= candidates_max or documents[asks].startswith(prefix):
            continue
        pairs.append(Pair(documents[asks], prefix, int(collisions[at])))
        taken += 1
    return pairs
