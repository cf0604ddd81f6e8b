"""State changes as values: what operators return and what the store writes in one batch.

A change is a fact to be merged, never a whole value that overwrites: adding it twice, or in another order, gives
the same state. `merge` says how, family by family; recovery and live writes share it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from state.codecs import posting_list
from state.families import Family


class Changes:
    """Puts and deletes by family; within a batch the last put of a key stands."""

    __slots__ = ("deletes", "puts")

    def __init__(self) -> None:
        self.puts: dict[Family, dict[bytes, bytes]] = {}
        self.deletes: dict[Family, set[bytes]] = {}

    def put(self, family: Family, key: bytes, value: bytes = b"") -> None:
        """Set `key`; undoes a delete of it in the same batch."""
        self.family(family)[key] = value
        if family in self.deletes:
            self.deletes[family].discard(key)

    def delete(self, family: Family, key: bytes) -> None:
        """Remove `key`; undoes a put of it in the same batch."""
        self.deletes.setdefault(family, set()).add(key)
        self.family(family).pop(key, None)

    def delete_all(self, family: Family, keys: Collection[bytes]) -> None:
        """Remove many keys, as `delete` does each."""
        self.deletes.setdefault(family, set()).update(keys)
        held = self.family(family)
        for key in held.keys() & keys if held else ():
            del held[key]

    def family(self, family: Family) -> dict[bytes, bytes]:
        """The puts of one family, to fill in bulk."""
        return self.puts.setdefault(family, {})

    def update(self, other: Changes) -> None:
        """Add what another operator changed after this."""
        for family, keys in other.deletes.items():
            held = self.family(family)
            for key in keys:
                held.pop(key, None)
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
    Family.LOCATIONS: _smaller,  # first seen
    Family.CAPTURES: _larger,  # the same capture; a revisit whose document is known sorts last
    Family.TEXTS: _smaller,  # the same canonical text, as the earliest of its pages wrote it
    Family.DOCUMENTS: _smaller,  # the same sketch; the earlier first-seen sorts first
}


def merge(family: Family, old: bytes | None, new: bytes) -> bytes:
    """The value that a key holds once both facts are known; commutative, associative and idempotent."""
    if old is None or old == new:
        return new
    return MERGES.get(family, _larger)(old, new)
