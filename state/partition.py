"""One partition of a state that is sharded over workers: a store, and its offset in the changelog.

The changes of a batch are first written to the changelog, and then, together with the new offset, to the store in
one write batch. A partition that moved to another worker, or lost its folder, replays the records after its offset.
Records are merged into the stored rows, so replaying a record that is already in the store changes nothing.

The store contains every record up to the offset. A record of another writer (a worker that has not yet noticed that
it lost the partition) leaves a gap between the offsets of this worker's records. The stored offset then stays before
the gap, so that the next replay reads the record. Counts of captures per host are not in the changelog: each write
derives them from the captures that it adds and deletes.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable

from state import meta, sweeps
from state.changes import MERGE_FUNCTIONS, Changes, merge
from state.codecs import capture_row, changelog_record
from state.codecs.url_key import host_prefix
from state.families import Family
from state.scheme import Scheme
from state.store import Store

_OFFSET_KEY = b"changelog"
_OFFSET_VALUE = struct.Struct(">q")


class Partition:
    """An open partition, which owns its store."""

    def __init__(self, store: Store, scheme: Scheme, number: int, count: int) -> None:
        """Claim an empty store for partition `number` of `count`, or check that the store is this partition.

        Raise StateIncompatible for a different partition, a different scheme or a newer format.
        """
        self.store = store
        self.number = number
        self.scheme = meta.claim_scheme(store, scheme)
        meta.claim_partition(store, number, count)
        value = store.get(Family.META, _OFFSET_KEY)
        self.offset: int = _OFFSET_VALUE.unpack(value)[0] if value else -1
        self._offsets_after_gap: set[int] = set()

    @property
    def records_after_gap(self) -> int:
        """The number of records written after a gap. More than a few mean that there is another writer."""
        return len(self._offsets_after_gap)

    def write(self, changes: Changes, offsets: Iterable[int], *, retraction: bool = False) -> None:
        """Commit changes that an operator derived from the current rows, with the offsets of their records."""
        self._offsets_after_gap.update(offset for offset in offsets if offset > self.offset)
        while self.offset + 1 in self._offsets_after_gap:
            self.offset += 1
            self._offsets_after_gap.discard(self.offset)
        # Only captures need merging: for other families, operators merge their changes into the rows that they read.
        self._commit(changes, () if retraction else (Family.CAPTURES,))

    def replay(self, offset: int, record: bytes) -> None:
        """Merge a changelog record into the store. Records must be replayed in order."""
        kind, changes = changelog_record.decode(record)
        self.offset = max(self.offset, offset)
        self._offsets_after_gap = {
            later_offset for later_offset in self._offsets_after_gap if later_offset > self.offset
        }
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
        changes.put(Family.META, _OFFSET_KEY, _OFFSET_VALUE.pack(self.offset))
        self.store.write(changes)

    def _capture_increases(self, changes: Changes) -> dict[int, Counter[bytes]]:
        """Return the increase in captures by sweep and host: puts of absent rows minus deletes of stored rows."""
        counts: dict[int, Counter[bytes]] = {}
        puts = sorted(changes.puts.get(Family.CAPTURES, ()))
        deletes = sorted(changes.deletes.get(Family.CAPTURES, ()))
        for row_keys, increase in ((puts, 1), (deletes, -1)):
            for row_key, stored in zip(row_keys, self.store.get_many(Family.CAPTURES, row_keys), strict=True):
                if (stored is None) == (increase == 1):  # otherwise the row stays present or absent
                    url_key, sweep, *_ = capture_row.decode_key(row_key)
                    counts.setdefault(sweep, Counter())[host_prefix(url_key)] += increase
        return counts

    def close(self) -> None:
        self.store.close()
