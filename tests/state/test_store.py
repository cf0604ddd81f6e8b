"""The store on a real RocksDB: reads, atomic writes, one writer and many readers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rocksdict

from state import wal
from state.changes import Changes
from state.errors import StateCorrupt, StateError, StateLocked, StateMissing
from state.families import STORAGE, Family, StoreLimits
from state.store import Store
from tests.memory import MemoryStore

SMALL = StoreLimits(cache_mib=8, write_buffers_mib=8, background_jobs=1)


def put(store: Store | MemoryStore, family: Family, **rows: bytes) -> None:
    changes = Changes()
    for key, value in rows.items():
        changes.put(family, key.encode(), value)
    store.write(changes)


def test_families_are_separate(store: Store) -> None:
    put(store, Family.META, a=b"1")
    put(store, Family.TEXTS, a=b"2", b=b"3")
    assert list(store.scan(Family.META)) == [(b"a", b"1")]
    assert list(store.scan(Family.TEXTS)) == [(b"a", b"2"), (b"b", b"3")]
    assert list(store.scan(Family.PARENTS)) == []


def test_a_scan_does_not_see_later_writes(store: Store) -> None:
    put(store, Family.META, a=b"1", b=b"1")
    scan = store.scan(Family.META)
    assert next(scan) == (b"a", b"1")
    put(store, Family.META, b=b"2", c=b"2")
    assert list(scan) == [(b"b", b"1")]


def test_rows_remain_after_reopening(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL) as store:
        put(store, Family.META, a=b"1")
    with Store(tmp_path, SMALL) as store:
        assert store.get(Family.META, b"a") == b"1"


KILLED = """
import os, sys
from pathlib import Path
from state.changes import Changes
from state.families import STORAGE, Family
from state.store import Store
store = Store(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    changes = Changes()
    for family in Family:
        for n in range(20):
            changes.put(family, b"%06d" % n, b"%d" % number)
    store.write(changes)
    if number == 50:
        print("going", flush=True)
"""


def test_a_write_is_atomic(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"going\n"
    child.kill()
    child.wait()
    child.stdout.close()
    with Store(tmp_path, SMALL) as store:
        values = {value for family in Family for _, value in store.scan(family)}
        assert len(values) == 1
        assert int(values.pop()) >= 50
        assert all(len(list(store.scan(family))) == 20 for family in Family)


def test_readers_see_commits_up_to_opening_or_catching_up(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL) as writer:
        put(writer, Family.META, a=b"1")
        with Store(tmp_path, SMALL, writable=False) as one, Store(tmp_path, SMALL, writable=False) as other:
            assert one.get(Family.META, b"a") == b"1"
            put(writer, Family.META, a=b"2", b=b"2")
            writer.flush()
            assert one.get_many(Family.META, [b"a", b"b"]) == [b"1", None]
            one.catch_up()
            assert one.get_many(Family.META, [b"a", b"b"]) == [b"2", b"2"]
            one.catch_up()
            assert one.get_many(Family.META, [b"a", b"b"]) == [b"2", b"2"]
            assert other.get(Family.META, b"a") == b"1"
            with pytest.raises(Exception, match=r"(?i)not supported|read.?only|secondary"):
                put(one, Family.META, a=b"3")


def test_a_reader_leaves_no_files(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL) as writer:
        before = {path.name for path in tmp_path.iterdir()}
        reader = Store(tmp_path, SMALL, writable=False)
        assert reader._reader_folder is not None
        temporary_folder = reader._reader_folder.path
        assert temporary_folder.exists()
        reader.close()
        assert not temporary_folder.exists()
        assert {path.name for path in tmp_path.iterdir()} == before
        assert writer.get(Family.META, b"a") is None


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL), pytest.raises(StateLocked, match="another process is writing") as refused:
        Store(tmp_path, SMALL)
    assert "wait" in refused.value.hint
    Store(tmp_path, SMALL).close()


def test_a_reader_without_a_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateMissing, match=r"no state in .*nowhere") as missing:
        Store(tmp_path / "nowhere", SMALL, writable=False)
    assert "--data-dir" in missing.value.hint
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_with_another_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("rubbish")
    for writable in (True, False):
        with pytest.raises(StateError, match="cannot open the state"):
            Store(tmp_path, SMALL, writable=writable)


@pytest.mark.parametrize("family", [family for family in Family if STORAGE[family].prefix_bytes])
def test_prefix_filters_hide_no_rows(tmp_path: Path, family: Family) -> None:
    """Look up rows of several files under prefixes of the filter's length, shorter and longer ones."""
    known, rng, memory = STORAGE[family].prefix_bytes, random.Random(family.value), MemoryStore()
    heads = [rng.randbytes(known) for _ in range(300)]
    with Store(tmp_path / "state", SMALL) as store:
        for _ in range(4):
            changes = Changes()
            for head in rng.sample(heads, 100):
                for _ in range(rng.choice((1, 1, 40))):
                    changes.put(family, head + rng.randbytes(rng.randint(1, 12)), b"v")
            for key, _ in rng.sample(sorted(memory.scan(family)), len(list(memory.scan(family))) // 4):
                changes.delete(family, key)
            store.write(changes)
            memory.write(changes)
            store.flush()
        wanted_prefixes = [*heads, *(rng.randbytes(known) for _ in range(300))]
        longer = [key[: known + 1] for key, _ in memory.scan(family)]
        with Store(tmp_path / "state", SMALL, writable=False) as reader:
            for opened in (store, reader):
                for prefixes in (wanted_prefixes, longer, [*wanted_prefixes[:20], b"", wanted_prefixes[0][:1]]):
                    assert opened.rows_under(family, prefixes, 9) == memory.rows_under(family, prefixes, 9)
                    assert opened.keys_under(family, prefixes, 9) == memory.keys_under(family, prefixes, 9)
                assert list(opened.scan(family)) == list(memory.scan(family))
                assert list(opened.scan(family, wanted_prefixes[0][:1])) == list(
                    memory.scan(family, wanted_prefixes[0][:1])
                )
                above = [key for key, _ in memory.scan(family, start=wanted_prefixes[0])]
                assert opened.keys(family, b"", 50, wanted_prefixes[0]) == above[:50]
                assert opened.last_rows_under(family, wanted_prefixes) == memory.last_rows_under(
                    family, wanted_prefixes
                )


def histories(rng: random.Random, count: int) -> list[bytes]:
    urls = [b"org,example)/%d" % n for n in range(count)]
    return [url + b"\0" + rng.randbytes(rng.choice((0, 14))) for url in urls for _ in range(rng.choice((1, 3)))]


def test_the_prefix_index_hides_no_rows(tmp_path: Path) -> None:
    """Read the last row of URLs with and without captures, before and after deletes, as writer and as reader."""
    rng, memory = random.Random(5), MemoryStore()
    wanted_prefixes = [b"org,example)/%d\0" % n for n in range(500)]
    with Store(tmp_path / "state", SMALL) as store:
        for _ in range(3):
            changes = Changes()
            for key in rng.sample(histories(rng, 400), 150):
                changes.put(Family.CAPTURES, key, b"v")
            for key, _ in rng.sample(sorted(memory.scan(Family.CAPTURES)), len(memory.rows[Family.CAPTURES]) // 4):
                changes.delete(Family.CAPTURES, key)
            store.write(changes)
            memory.write(changes)
            store.flush()
            values = [row is not None for row in memory.last_rows_under(Family.CAPTURES, wanted_prefixes)]
            assert any(values)
            for prefixes in (
                wanted_prefixes,
                [b"", b"org", wanted_prefixes[0][:-1], wanted_prefixes[1] + b"a\0", b"none\0"],
            ):
                expected = memory.last_rows_under(Family.CAPTURES, prefixes)
                assert store.last_rows_under(Family.CAPTURES, prefixes) == expected
                with Store(tmp_path / "state", SMALL, writable=False) as reader:
                    assert reader.last_rows_under(Family.CAPTURES, prefixes) == expected
                    for opened in (store, reader):
                        assert opened.may_have_rows(Family.CAPTURES, wanted_prefixes) == values


def test_a_prefix_index_counts_as_part_of_its_family(tmp_path: Path) -> None:
    changes = Changes()
    for n in range(20_000):
        changes.put(Family.CAPTURES, b"org,example)/\0%014d" % n, b"")
    with Store(tmp_path / "one", SMALL) as one:
        one.write(changes)
        one.flush()
        few = one.bytes_on_disk(Family.CAPTURES)
    for n in range(20_000):
        changes.delete(Family.CAPTURES, b"org,example)/\0%014d" % n)
        changes.put(Family.CAPTURES, b"org,example)/%014d\0" % n, b"")
    with Store(tmp_path / "many", SMALL) as many:
        many.write(changes)
        many.flush()
        assert many.bytes_on_disk(Family.CAPTURES) > few + 8 * 20_000


def test_damage_is_not_reported_as_a_lock(tmp_path: Path) -> None:
    with Store(tmp_path, SMALL) as store:
        put(store, Family.META, **{f"k{n:05d}": os.urandom(30) for n in range(4_000)})
        store.flush()
    for file in tmp_path.glob("*.sst"):
        data = file.read_bytes()  # damages the index block, which is before the footer
        file.write_bytes(data[:-400] + bytes(byte ^ 0xFF for byte in data[-400:-60]) + data[-60:])
    with pytest.raises(StateError, match="block checksum"):
        Store(tmp_path, SMALL)


def test_a_checkpoint_does_not_contain_later_writes(tmp_path: Path) -> None:
    with Store(tmp_path / "one", SMALL) as store:
        put(store, Family.META, a=b"1")
        store.checkpoint(tmp_path / "two")
        put(store, Family.META, a=b"2")
        with Store(tmp_path / "two", SMALL) as copy:
            assert copy.get(Family.META, b"a") == b"1"
        with pytest.raises(StateError, match="cannot make a backup"):
            store.checkpoint(tmp_path / "two")


def test_a_reader_s_checkpoint_contains_everything_committed(tmp_path: Path) -> None:
    """Some rows are only in the writer's log."""
    with Store(tmp_path / "one", SMALL) as writer:
        put(writer, Family.META, a=b"1")
        writer.flush()
        with Store(tmp_path / "one", SMALL, writable=False) as reader:
            put(writer, Family.META, a=b"2", b=b"2")
            reader.checkpoint(tmp_path / "two")
        put(writer, Family.META, a=b"3")
    for writable in (False, True):
        with Store(tmp_path / "two", SMALL, writable=writable) as copy:
            assert list(copy.scan(Family.META)) == [(b"a", b"2"), (b"b", b"2")]


def test_a_reader_opens_again_if_a_log_is_deleted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB would otherwise miss the rows that were only in this log."""
    with Store(tmp_path, SMALL) as writer:
        put(writer, Family.META, a=b"1")
        find_damage, calls = wal.find_damage, []

        def flush_after_checking(folder: Path, *, verify_checksums: bool = False) -> wal.Damage | None:
            damage = find_damage(folder, verify_checksums=verify_checksums)
            calls.append(damage)
            if len(calls) == 1:
                writer.flush()
                put(writer, Family.META, b=b"2")
            return damage

        monkeypatch.setattr(wal, "find_damage", flush_after_checking)
        with Store(tmp_path, SMALL, writable=False) as reader:
            assert list(reader.scan(Family.META)) == [(b"a", b"1"), (b"b", b"2")]
    assert len(calls) == 2


def test_a_reader_gives_up_if_logs_are_deleted_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # no copy can be made inside the folder
    monkeypatch.setattr("state.between_commits._SECONDS_MAX", 0.5)
    with Store(tmp_path, SMALL) as writer:
        number, open_once = 0, Store._open_once

        def flush_after_opening(store: Store, *arguments: Any) -> Any:
            nonlocal number
            number += 1
            database = open_once(store, *arguments)
            put(writer, Family.META, **{f"a{number}": b"1"})
            writer.flush()
            return database

        monkeypatch.setattr(Store, "_open_once", flush_after_opening)
        with pytest.raises(StateError, match="the writer replaced files") as refused:
            Store(tmp_path, SMALL, writable=False)
        assert "again" in refused.value.hint


def test_a_reader_waits_for_the_column_families_of_a_new_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer creates them one after another."""
    rocksdict.Rdict(str(tmp_path), rocksdict.Options(raw_mode=True)).close()
    writers: list[Store] = []
    monkeypatch.setattr("state.between_commits.time.sleep", lambda _: writers.append(Store(tmp_path, SMALL)))
    with Store(tmp_path, SMALL, writable=False) as reader:
        assert reader.get(Family.META, b"a") is None
    (writer,) = writers
    writer.close()


def test_sizes_are_reported(store: Store) -> None:
    changes = Changes()
    for n in range(2_000):
        changes.put(Family.TEXTS, b"%06d" % n, bytes(200))
    store.write(changes)
    store.flush()
    assert store.bytes_on_disk(Family.TEXTS) > 100_000
    assert store.bytes_on_disk(Family.META) < store.bytes_on_disk(Family.TEXTS)
    assert store.estimated_keys(Family.TEXTS) == 2_000
    assert {"cache", "buffers", "tables"} <= store.bytes_in_memory().keys()


def test_a_read_only_file_system_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(tmp_path / "state", SMALL).close()

    class Refusing:
        def __init__(self, *_: object, **__: object) -> None:
            raise OSError(30, "Read-only file system")

    monkeypatch.setattr("state.store.rocks.Rdict", Refusing)
    with pytest.raises(StateError, match="read-only file system") as refused:
        Store(tmp_path / "state", SMALL)
    assert "--data-dir" in refused.value.hint


def test_a_writer_that_must_not_create_a_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StateMissing, match="no state in"):
        Store(tmp_path / "none", create_if_missing=False)
    assert not (tmp_path / "none").exists()


def test_a_path_that_cannot_be_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateError, match=str(path)):
            Store(path)


@pytest.mark.parametrize(
    "read",
    [
        lambda store: list(store.scan(Family.WORDS)),
        lambda store: store.keys(Family.WORDS, b"k", 5_000),
        lambda store: list(store.scan_reverse(Family.WORDS, b"k", b"k\xff")),
        lambda store: store.rows_under(Family.WORDS, [b"k"]),
        lambda store: store.keys_under(Family.WORDS, [b"k"], 5_000),
        lambda store: [store.last_rows_under(Family.WORDS, [b"k%05d" % n for n in range(0, 4_000, 100)])],
        lambda store: [store.get(Family.WORDS, b"k%05d" % n) for n in range(0, 4_000, 100)],
        lambda store: store.get_many(Family.WORDS, [b"k%05d" % n for n in range(0, 4_000, 100)]),
    ],
)
def test_damage_is_not_mistaken_for_the_end_of_the_rows(tmp_path: Path, read: Callable[[Store], object]) -> None:
    path = tmp_path / "state"
    with Store(path) as store:
        put(store, Family.WORDS, **{f"k{n:05d}": os.urandom(30) for n in range(4_000)})
        store.flush()
        read(store)
    (file,) = [file for file in path.glob("*.sst") if file.stat().st_size > 100_000]
    values = bytearray(file.read_bytes())
    for at in range(10, 100_000, 500):
        values[at] ^= 0xFF
    file.write_bytes(values)
    with Store(path, writable=False) as store, pytest.raises(StateCorrupt, match="damaged"):
        read(store)


def test_opening_a_reader_touches_little_memory(tmp_path: Path) -> None:
    """Filling pages of memory with zeros took most of the time of a short query."""
    Store(tmp_path / "state").close()
    program = """
import resource, sys
from pathlib import Path
from state.store import Store
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
Store(Path(sys.argv[1]), writable=False)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""
    command = [sys.executable, "-c", program, str(tmp_path / "state")]
    touched_bytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert touched_bytes < 10 << 20


def test_a_reader_refuses_a_database_without_the_column_families(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("state.between_commits._CREATION_SECONDS_MAX", 0.1)
    rocksdict.Rdict(str(tmp_path), rocksdict.Options(raw_mode=True)).close()
    with pytest.raises(StateError, match="is not a lostfound state: it has different column families"):
        Store(tmp_path, SMALL, writable=False)
