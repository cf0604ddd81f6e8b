"""One partition of a state that is spread over workers: a store, and how much of its changelog is in it.

What the operators return are facts. Each batch of them goes into the changelog first, then here, together with the
offset that it has there, in one write batch. A partition that was away, or lost its folder, replays the records
behind its offset: facts are merged, so that one that was here already changes nothing.

The offset is the end of a run without gaps. A record of another writer (a worker that did not know yet that it had
lost the partition) leaves a gap in what this worker wrote itself; then the offset stays before it, and the next
replay reads it. Counts of captures are no facts: they are derived, in the same write, from captures that were not
there.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable

from state import meta, sweeps
from state.changes import MERGES, Changes, merge
from state.codecs import capture_row, changelog_record
from state.codecs.url_key import host_prefix
from state.families import Family
from state.scheme import Scheme
from state.store import Store

_OFFSET = b"changelog"
_NUMBER = struct.Struct(">q")


class Partition:
    """An open partition."""

    def __init__(self, store: Store, scheme: Scheme, number: int, count: int) -> None:
        """Partition `number` of `count`.

        Raises StateRefused when the store is another one's, or was made with another scheme or by a newer version.
        """
        self.store = store
        self.number = number
        self.scheme = meta.claim_scheme(store, scheme)
        meta.claim_partition(store, number, count)
        held = store.get(Family.META, _OFFSET)
        self.offset: int = _NUMBER.unpack(held)[0] if held else -1
        self._ahead: set[int] = set()

    @property
    def records_ahead(self) -> int:
        """Records written here that lie behind a gap; more than a few say that another writer got in between."""
        return len(self._ahead)

    def write(self, changes: Changes, offsets: Iterable[int], *, retraction: bool = False) -> None:
        """Commit what an operator made of the present state; `offsets` are its records' places in the changelog."""
        self._ahead.update(offset for offset in offsets if offset > self.offset)
        while self.offset + 1 in self._ahead:
            self.offset += 1
            self._ahead.discard(self.offset)
        # The operators have read every other family that they change.
        self._commit(changes, () if retraction else (Family.CAPTURES,))

    def replay(self, offset: int, record: bytes) -> None:
        """Merge a record read from the changelog; records must come in order, as a reader gets them."""
        kind, changes = changelog_record.decode(record)
        self.offset = max(self.offset, offset)
        self._ahead = {ahead for ahead in self._ahead if ahead > self.offset}
        self._commit(changes, () if kind == changelog_record.AMENDMENT else MERGES)

    def _commit(self, changes: Changes, merged: Collection[Family]) -> None:
        counts = self._captures_counted(changes)
        for family in merged:
            rows = changes.puts.get(family)
            if rows:
                keys = sorted(rows)
                for key, held in zip(keys, self.store.get_many(family, keys), strict=True):
                    rows[key] = merge(family, held, rows[key])
        for number, hosts in counts.items():
            sweeps.add_hosts(self.store, changes, number, hosts)
        changes.put(Family.META, _OFFSET, _NUMBER.pack(self.offset))
        self.store.write(changes)

    def _captures_counted(self, changes: Changes) -> dict[int, Counter[bytes]]:
        """Captures that come and go with these changes, by sweep and host."""
        counts: dict[int, Counter[bytes]] = {}
        coming = sorted(changes.puts.get(Family.CAPTURES, ()))
        going = sorted(changes.deletes.get(Family.CAPTURES, ()))
        for keys, step in ((coming, 1), (going, -1)):
            for row, held in zip(keys, self.store.get_many(Family.CAPTURES, keys), strict=True):
                if (held is None) == (step == 1):
                    key, number, *_ = capture_row.decode_key(row)
                    counts.setdefault(number, Counter())[host_prefix(key)] += step
        return counts

    def close(self) -> None:
        """Let go of the folder; everything that was committed is kept."""
        self.store.close()
