"""Dumps show every row, but no secrets."""

from __future__ import annotations

import json

import msgspec
import pytest

from state import meta
from state.changes import Changes
from state.dump import dump
from state.families import Family
from state.scheme import Scheme
from state.store import Store
from tests.memory import MemoryStore


@pytest.mark.parametrize("family", list(Family))
def test_dump_shows_every_row(sound_store: Store, family: Family) -> None:
    rows = list(dump(sound_store, family))
    assert len(rows) == len(list(sound_store.scan(family)))
    assert rows
    for row in rows:
        assert "error" not in row
        json.dumps(row)


def test_dump_shows_no_dictionary(sound: MemoryStore) -> None:
    """A dictionary contains pieces of texts, even of deleted ones."""
    changes = Changes()
    meta.put_dictionary(changes, 1, b"pieces of a text")
    sound.write(changes)
    rows = list(dump(sound, Family.META, b"dictionary:"))
    assert rows == [{"key": "dictionary:", "number": 1, "bytes": 16}]


def test_dump_shows_no_seed(sound: MemoryStore) -> None:
    """A private seed is a secret."""
    (row,) = dump(sound, Family.META, b"scheme")
    assert json.loads(row["value"]) == {n: v for n, v in msgspec.structs.asdict(Scheme()).items() if n != "seed"}


def test_dump_shows_damage_in_hex(sound: MemoryStore) -> None:
    row, value = next(iter(sound.scan(Family.EDGES)))
    changes = Changes()
    changes.put(Family.EDGES, row, value[:-1])
    sound.write(changes)
    shown = next(iter(dump(sound, Family.EDGES, row[:16])))
    assert shown["key"] == row.hex()
    assert shown["value"] == value[:-1].hex()
    assert "version 1" in shown["error"]
