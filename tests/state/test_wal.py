"""Damage in the log of a killed state is refused, not taken for the end of the log."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from state import inventory, wal
from state.errors import StateCorrupt
from state.families import Family
from state.store import Store

BATCHES = 40
KILLED = f"""
import os, random, signal, sys
from pathlib import Path
from state.changes import Changes
from state.families import Family
from state.store import Store
store, rng = Store(Path(sys.argv[1])), random.Random(1)
for number in range({BATCHES}):
    changes = Changes()
    for family in (Family.META, Family.TEXTS):
        for row in range(rng.choice((1, 5, 60))):
            changes.put(family, b"%03d-%d" % (number, row), rng.randbytes(rng.choice((5, 300, 2_000))))
    store.write(changes)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state whose writer was killed, with all batches in its log."""
    folder = tmp_path_factory.mktemp("killed") / "state"
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    return folder


@pytest.fixture
def log(killed: Path, tmp_path: Path) -> Path:
    """The log of a copy of the killed state."""
    shutil.copytree(killed, tmp_path / "state")
    (file,) = (tmp_path / "state").glob("*.log")
    return file


def fragments(data: bytes) -> list[int]:
    """Return the offsets of all fragments."""
    offsets, offset = [], 0
    while offset < len(data):
        if 32_768 - offset % 32_768 < 7:
            offset += 32_768 - offset % 32_768
        offsets.append(offset)
        offset += 7 + int.from_bytes(data[offset + 4 : offset + 6], "little")
    return offsets


def batches(folder: Path) -> set[int]:
    with Store(folder, writable=False) as store:
        return {int(key[:3]) for family in (Family.META, Family.TEXTS) for key, _ in store.scan(family)}


def flip(file: Path, offset: int, mask: int) -> None:
    with file.open("rb+") as stream:
        stream.seek(offset)
        (byte,) = stream.read(1)
        stream.seek(offset)
        stream.write(bytes((byte ^ mask,)))


def assert_refused(log: Path) -> None:
    before = log.read_bytes()
    for writable in (True, False):
        with pytest.raises(StateCorrupt, match=rf"the log .*{log.name} is damaged after byte \d+") as refused:
            Store(log.parent, writable=writable)
        assert "state check --repair" in refused.value.hint
    assert log.read_bytes() == before


def test_every_batch_of_a_killed_writer_is_read(log: Path) -> None:
    assert log.stat().st_size > 10 * 32_768
    assert wal.find_damage(log.parent, verify_checksums=True) is None
    Store(log.parent).close()
    assert batches(log.parent) == set(range(BATCHES))


@pytest.mark.parametrize("seed", range(12))
def test_a_flipped_byte_is_refused(log: Path, seed: int) -> None:
    rng = random.Random(seed)
    flip(log, rng.randrange(log.stat().st_size), rng.randrange(1, 256))
    assert_refused(log)


@pytest.mark.parametrize("field", [0, 4, 5, 6, 7])
@pytest.mark.parametrize("mask", [0x01, 0x04, 0x80])
def test_a_flipped_byte_in_a_header_is_refused(log: Path, field: int, mask: int) -> None:
    """Also in the last fragment, and where RocksDB takes the damage for the end of the log."""
    offsets = fragments(log.read_bytes())
    original = log.read_bytes()
    for fragment in (offsets[0], offsets[1], offsets[len(offsets) // 2], offsets[-2], offsets[-1]):
        flip(log, fragment + field, mask)
        assert_refused(log)
        log.write_bytes(original)


def test_a_log_that_a_writer_deletes_meanwhile_is_no_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a second writer is that the state is locked."""
    monkeypatch.setattr(inventory, "list_logs", lambda _: {log.name, "000001.log", "999999.log"})
    assert wal.find_damage(log.parent) is None


@pytest.mark.parametrize("seed", range(6))
def test_rows_after_the_damage_are_read(log: Path, seed: int) -> None:
    rng = random.Random(seed)
    flip(log, rng.randrange(log.stat().st_size // 2), 0x20)
    damage = wal.find_damage(log.parent, verify_checksums=True)
    assert damage is not None
    numbers = {int(key[:3]) for key, _ in wal.rows_after(damage) if key[3:4] == b"-"}
    assert numbers == set(range(min(numbers), BATCHES))
    assert len(numbers) > BATCHES // 4
    with log.open("rb+") as stream:
        stream.truncate(damage.intact_bytes)
    assert batches(log.parent) == set(range(len(batches(log.parent))))
    assert len(batches(log.parent)) < min(numbers)


@pytest.mark.parametrize("seed", range(8))
def test_a_torn_log_is_opened_with_all_complete_batches(log: Path, seed: int) -> None:
    """A killed writer leaves the start of a record; a power cut may leave zeros after it."""
    rng = random.Random(seed)
    size = rng.randrange(log.stat().st_size)
    data = log.read_bytes()
    zeros = (0, 100, 5_000, 70_000)[seed % 4]
    sectors = size // 512 * 512
    log.write_bytes(data[:sectors] + bytes(zeros) if zeros else data[:size])
    assert wal.find_damage(log.parent, verify_checksums=True) is None
    read = batches(log.parent)
    assert read == set(range(len(read)))
    Store(log.parent).close()
    assert batches(log.parent) == read


def test_a_torn_log_before_another_log_with_batches_is_refused(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-10])
    later = log.with_name("000009.log")
    later.write_bytes(b"")
    assert wal.find_damage(log.parent) is None
    later.write_bytes(log.read_bytes())
    damage = wal.find_damage(log.parent)
    assert damage is not None
    assert damage.file == log


@pytest.mark.parametrize(("data", "checksum"), [(b"", 0), (b"a", 0xC1D04330), (b"123456789", 0xE3069283)])
def test_crc32c(data: bytes, checksum: int) -> None:
    assert wal.crc32c(data) == checksum
