"""A reader and a backup see a state exactly as of one commit, however often the writer replaces its files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from state.backup import backup
from state.families import Family, StoreLimits
from state.store import Store

TINY = StoreLimits(cache_mib=8, write_buffers_mib=1, background_jobs=1)
ROUNDS = 6
# Each batch puts one row into every family. The sizes differ, so that the write buffers are not full at the same time.
WRITER = """
import random, sys, time
from pathlib import Path
from state.changes import Changes
from state.families import Family, StoreLimits
from state.store import Store
store, rng = Store(Path(sys.argv[1]), StoreLimits(cache_mib=8, write_buffers_mib=1, background_jobs=1)), random.Random(3)
for number in range(20_000):
    changes = Changes()
    for size, family in enumerate(Family):
        changes.put(family, b"%09d" % number, rng.randbytes(rng.randrange(50 + 250 * size)))
    store.write(changes)
    if number == 0:
        print(flush=True)
    time.sleep(0.002)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A state to which a process writes without a pause."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "state")], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    writer.stdout.readline()
    yield tmp_path / "state"
    assert writer.poll() is None
    writer.kill()
    writer.wait()
    writer.stdout.close()


def batches(folder: Path) -> int:
    """Return the number of batches that are visible, which must be complete and without a gap."""
    with Store(folder, TINY, writable=False) as reader:
        return visible_batches(reader)


def visible_batches(reader: Store) -> int:
    numbers = {family: [int(key) for key, _ in reader.scan(family)] for family in Family}
    count = len(numbers[Family.META])
    assert {family: len(rows) for family, rows in numbers.items()} == dict.fromkeys(Family, count)
    assert all(rows == list(range(count)) for rows in numbers.values())
    return count


def test_a_reader_sees_complete_batches(folder: Path) -> None:
    seen = [batches(folder) for _ in range(ROUNDS)]
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]


def test_a_reader_that_catches_up_sees_complete_batches(folder: Path) -> None:
    with Store(folder, TINY, writable=False) as reader:
        seen = []
        for _ in range(ROUNDS):
            reader.catch_up()
            seen.append(visible_batches(reader))
            assert visible_batches(reader) == seen[-1]
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]


def test_a_backup_contains_complete_batches(folder: Path, tmp_path: Path) -> None:
    seen = []
    for number in range(ROUNDS):
        with Store(folder, TINY, writable=False) as reader:
            backup(reader, tmp_path / str(number))
        seen.append(batches(tmp_path / str(number)))
        with Store(tmp_path / str(number), TINY) as copy:
            assert visible_batches(copy) == seen[-1]
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]
