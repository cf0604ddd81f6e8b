"""A flipped byte in any file that RocksDB needs is detected: by opening the state or by reading all rows."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from state.changes import Changes
from state.errors import StateError
from state.families import Family
from state.store import Store

Rows = dict[Family, list[tuple[bytes, bytes]]]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed state with tables of several families."""
    folder = tmp_path_factory.mktemp("closed") / "state"
    rng = random.Random(4)
    for number in range(2):
        with Store(folder) as store:
            changes = Changes()
            for family in Family:
                for row in range(300):
                    changes.put(family, b"%d-%04d" % (number, row), rng.randbytes(100))
            store.write(changes)
    return folder


def rows(folder: Path, *, writable: bool) -> Rows:
    with Store(folder, writable=writable) as store:
        return {family: list(store.scan(family)) for family in Family}


@pytest.mark.parametrize("pattern", ["*.sst", "MANIFEST-*", "CURRENT"])
@pytest.mark.parametrize("writable", [False, True])
def test_a_flipped_byte_is_detected_or_changes_nothing(
    closed: Path, tmp_path: Path, pattern: str, writable: bool
) -> None:
    """Some bytes mean nothing, such as those of an empty filter."""
    rng, expected, detected = random.Random(pattern), rows(closed, writable=False), 0
    flips = 14
    for number in range(flips):
        folder = tmp_path / str(number)
        shutil.copytree(closed, folder)
        file = rng.choice(sorted(folder.glob(pattern)))
        data = bytearray(file.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
        try:
            assert rows(folder, writable=writable) == expected
        except StateError:
            detected += 1
    assert detected > flips // 2
