"""One partition of a state that is sharded over workers: a store, and its position in the changelog.

The changes of a batch are first appended to the changelog. Then they are written to the store in one write batch,
together with the offset of their record. If a partition moves to another worker, or its folder is lost, the worker
replays the records after the stored offset. Facts are merged into the stored rows, so replaying a record that is
already in the store changes nothing.

Each record contains the epoch of its writer. A worker that takes over a partition claims it: it appends an empty
record with a higher epoch. From then on, records with lower epochs are void. They are from a former owner that has
not noticed that it lost the partition, for example because its process was suspended. All replays skip them, so all
workers derive the same rows from the changelog.

Counts of captures per host are not in the changelog: each write derives them from the captures that it adds and
deletes.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection

from state import meta, sweeps
from state.changes import MERGE_FUNCTIONS, Changes, merge
from state.codecs import capture_row, changelog_record
from state.codecs.url_key import host_prefix
from state.families import Family
from state.scheme import Scheme
from state.store import Store

_POSITION_KEY = b"changelog"
_POSITION_VALUE = struct.Struct(">qI")


class Partition:
    """An open partition, which owns its store."""

    def __init__(self, store: Store, scheme: Scheme, number: int, count: int) -> None:
        """Assign an empty store to partition `number` of `count`, or check that the store belongs to this partition.

        Raise StateIncompatible if the store has a different partition, a different scheme or a newer format.
        """
        self.store = store
        self.number = number
        self.scheme = meta.claim_scheme(store, scheme)
        meta.claim_partition(store, number, count)
        position = store.get(Family.META, _POSITION_KEY)
        self.offset: int
        self.epoch: int
        self.offset, self.epoch = _POSITION_VALUE.unpack(position) if position else (-1, 0)
        self.claimed_epoch: int | None = None  # the epoch that this worker has claimed
        self.sender_epochs = meta.sender_epochs(store)  # the highest epoch received, by topic and sending partition

    @property
    def is_claimed(self) -> bool:
        """Whether this worker has claimed the partition, and no other worker has claimed it since."""
        return self.claimed_epoch == self.epoch

    def write(self, changes: Changes, offset: int, *, retraction: bool = False) -> None:
        """Commit changes that an operator derived from the current rows. `offset` belongs to their last record."""
        assert self.is_claimed
        assert offset > self.offset
        self.offset = offset
        # Only captures need merging: for other families, operators merge their changes into the rows that they read.
        self._commit(changes, () if retraction else (Family.CAPTURES,))

    def replay(self, offset: int, epoch: int, record: bytes) -> None:
        """Merge a changelog record into the store, unless it is void. Records must be replayed in order."""
        kind, changes = changelog_record.decode(record)
        self.offset = max(self.offset, offset)
        if epoch < self.epoch:
            changes = Changes()
        self.epoch = max(self.epoch, epoch)
        self._commit(changes, () if kind == changelog_record.RETRACTION else MERGE_FUNCTIONS)

    def _commit(self, changes: Changes, merged_families: Collection[Family]) -> None:
        host_counts = self._capture_increases(changes)
        for family in merged_families:
            rows = changes.puts.get(family, {})
            keys = sorted(rows)
            for key, stored in zip(keys, self.store.get_many(family, keys), strict=True):
                rows[key] = merge(family, stored, rows[key])
        for sweep, counts in host_counts.items():
            sweeps.add_captures_per_host(self.store, changes, sweep, counts)
        changes.put(Family.META, _POSITION_KEY, _POSITION_VALUE.pack(self.offset, self.epoch))
        self.store.write(changes)

    def _capture_increases(self, changes: Changes) -> dict[int, Counter[bytes]]:
        """Return the increase in captures by sweep and host: puts of absent rows minus deletes of stored rows."""
        counts: dict[int, Counter[bytes]] = {}
        puts = sorted(changes.puts.get(Family.CAPTURES, ()))
        deletes = sorted(changes.deletes.get(Family.CAPTURES, ()))
        for row_keys, increase in ((puts, 1), (deletes, -1)):
            for row_key, stored in zip(row_keys, self.store.get_many(Family.CAPTURES, row_keys), strict=True):
                if (stored is None) == (increase == 1):  # otherwise the number of rows does not change
                    url_key, sweep, *_ = capture_row.decode_key(row_key)
                    counts.setdefault(sweep, Counter())[host_prefix(url_key)] += increase
        return counts

    def close(self) -> None:
        self.store.close()
