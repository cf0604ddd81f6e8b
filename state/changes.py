"""State changes as values: operators return them, and the store writes them in one batch.

In a Kafka partition, changes do not overwrite stored rows but are merged into them, except for retractions. Merging a
change twice, or in a different order, gives the same state; `merge` ensures this for every family.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from state.codecs import posting_list
from state.families import Family


class Changes:
    """Puts and deletes by family. Of several changes to a key, the last one wins."""

    __slots__ = ("deletes", "puts")

    def __init__(self) -> None:
        self.puts: dict[Family, dict[bytes, bytes]] = {}
        self.deletes: dict[Family, set[bytes]] = {}

    def put(self, family: Family, key: bytes, value: bytes = b"") -> None:
        """Put a row, and cancel an earlier delete of its key in these changes."""
        self.puts_of(family)[key] = value
        if family in self.deletes:
            self.deletes[family].discard(key)

    def delete(self, family: Family, key: bytes) -> None:
        """Delete a row, and cancel an earlier put of its key in these changes."""
        self.deletes.setdefault(family, set()).add(key)
        self.puts_of(family).pop(key, None)

    def delete_all(self, family: Family, keys: Collection[bytes]) -> None:
        self.deletes.setdefault(family, set()).update(keys)
        puts = self.puts_of(family)
        for key in puts.keys() & keys if puts else ():
            del puts[key]

    def puts_of(self, family: Family) -> dict[bytes, bytes]:
        """Return the puts of a family. Callers may add rows to them."""
        return self.puts.setdefault(family, {})

    def update(self, other: Changes) -> None:
        """Add later changes, which win over earlier changes to the same keys."""
        for family, keys in other.deletes.items():
            self.delete_all(family, keys)
        for family, rows in other.puts.items():
            self.puts_of(family).update(rows)
            if family in self.deletes:
                self.deletes[family].difference_update(rows)

    def __len__(self) -> int:
        return sum(map(len, self.puts.values())) + sum(map(len, self.deletes.values()))


MERGE_FUNCTIONS: dict[Family, Callable[[bytes, bytes], bytes]] = {
    Family.BANDS: posting_list.union,
    Family.PARENTS: min,  # keeps the smaller parent, because parent pointers only decrease
    Family.LOCATIONS: min,  # keeps the earlier first-seen time
    Family.CAPTURES: max,  # keeps the row with a document, written once the original of a revisit is known
    Family.TEXTS: min,  # keeps the text of the earliest capture
    Family.DOCUMENTS: min,  # keeps the earlier first-seen time
    Family.DECISIONS: max,  # keeps the later decision; of two with the same time, the one with the greater value
}


def merge(family: Family, old: bytes | None, new: bytes) -> bytes:
    """Merge two values of a key. The operation is commutative, associative and idempotent."""
    if old is None or old == new:
        return new
    return MERGE_FUNCTIONS.get(family, max)(old, new)
