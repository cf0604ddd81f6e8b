"""State changes as values: operators return them, and the store writes them in one batch.

A change is a fact to merge, not a value that overwrites: adding it twice, or in another order, gives the same state.
`merge` defines this for every family; recovery and live writes share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from state.codecs import posting_list
from state.families import Family


class Changes:
    """Puts and deletes by family; the last change of a key wins."""

    __slots__ = ("deletes", "puts")

    def __init__(self) -> None:
        self.puts: dict[Family, dict[bytes, bytes]] = {}
        self.deletes: dict[Family, set[bytes]] = {}

    def put(self, family: Family, key: bytes, value: bytes = b"") -> None:
        """Put a row; this undoes a delete of its key in the same batch."""
        self.family(family)[key] = value
        if family in self.deletes:
            self.deletes[family].discard(key)

    def delete(self, family: Family, key: bytes) -> None:
        """Delete a row; this undoes a put of its key in the same batch."""
        self.deletes.setdefault(family, set()).add(key)
        self.family(family).pop(key, None)

    def delete_all(self, family: Family, keys: Collection[bytes]) -> None:
        """Delete many rows, as `delete` does."""
        self.deletes.setdefault(family, set()).update(keys)
        puts = self.family(family)
        for key in puts.keys() & keys if puts else ():
            del puts[key]

    def family(self, family: Family) -> dict[bytes, bytes]:
        """Return the puts of one family, which callers may add to in bulk."""
        return self.puts.setdefault(family, {})

    def update(self, other: Changes) -> None:
        """Add changes that another operator made after these."""
        for family, keys in other.deletes.items():
            puts = self.family(family)
            for key in keys:
                puts.pop(key, None)
            self.deletes.setdefault(family, set()).update(keys)
        for family, rows in other.puts.items():
            self.family(family).update(rows)
            if family in self.deletes:
                self.deletes[family].difference_update(rows)

    def __len__(self) -> int:
        return sum(map(len, self.puts.values())) + sum(map(len, self.deletes.values()))


def _smaller(old: bytes, new: bytes) -> bytes:
    return min(old, new)


def _larger(old: bytes, new: bytes) -> bytes:
    return max(old, new)


MERGES: dict[Family, Callable[[bytes, bytes], bytes]] = {
    Family.BANDS: posting_list.union,
    Family.PARENTS: _smaller,  # parent pointers only decrease
    Family.LOCATIONS: _smaller,  # the earlier first-seen time
    Family.CAPTURES: _larger,  # the same capture; a revisit whose document is known sorts last
    Family.TEXTS: _smaller,  # the same canonical text, as the earliest of its pages wrote it
    Family.DOCUMENTS: _smaller,  # the same sketch; the earlier first-seen time sorts first
}


def merge(family: Family, old: bytes | None, new: bytes) -> bytes:
    """Return the value that results from two facts about a key; commutative, associative and idempotent."""
    if old is None or old == new:
        return new
    return MERGES.get(family, _larger)(old, new)
