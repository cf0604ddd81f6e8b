"""A partition of the state: packed changelog, replay, and the offset that is never ahead of what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import sweeps
from state.changes import Changes
from state.codecs import capture_row, changelog_record
from state.errors import StateRefused
from state.families import Family
from state.model import Capture
from state.partition import Partition
from state.scheme import Scheme
from state.store import Store

KEY = b"org,example)/a"
rows = st.dictionaries(
    st.sampled_from(list(Family)), st.dictionaries(st.binary(max_size=40), st.binary(max_size=300), max_size=20)
)
gone = st.dictionaries(st.sampled_from(list(Family)), st.sets(st.binary(max_size=40), max_size=20))


def changed(puts: dict[Family, dict[bytes, bytes]], deletes: dict[Family, set[bytes]]) -> Changes:
    changes = Changes()
    for family, keys in deletes.items():
        for key in keys:
            changes.delete(family, key)
    for family, values in puts.items():
        for key, value in values.items():
            changes.put(family, key, value)
    return changes


@given(rows, gone, st.integers(64, 4096), st.sampled_from([changelog_record.FACTS, changelog_record.RETRACTION]))
def test_records_hold_what_was_packed(
    puts: dict[Family, dict[bytes, bytes]], deletes: dict[Family, set[bytes]], most: int, kind: int
) -> None:
    changes = changed(puts, deletes)
    found = Changes()
    for record in changelog_record.encode(changes, kind=kind, record_bytes_max=most):
        assert len(record) <= max(most, 400)
        said, part = changelog_record.decode(record)
        assert said == kind
        found.update(part)
    assert {f: r for f, r in found.puts.items() if r} == {f: r for f, r in changes.puts.items() if r}
    assert {f: k for f, k in found.deletes.items() if k} == {f: k for f, k in changes.deletes.items() if k}


@given(st.binary(max_size=60))
def test_rubbish_is_no_record(data: bytes) -> None:
    try:
        changelog_record.decode(b"\x01\x01" + data)
    except ValueError:
        return


@pytest.mark.parametrize("cut", [0, 1, 5, 20, -1])
def test_a_record_cut_short_is_refused(cut: int) -> None:
    changes = Changes()
    changes.put(Family.TEXTS, b"k" * 16, b"v" * 30)
    (record,) = changelog_record.encode(changes)
    with pytest.raises(ValueError, match="cut short"):
        changelog_record.decode(record[:cut])


def captured(time: int) -> Changes:
    held = Capture(
        key=KEY, url="http://example.org/a", sweep=1, time=time, status=200, document=b"d" * 16, raw=b"r" * 8, tie=1
    )
    changes = Changes()
    changes.put(Family.CAPTURES, capture_row.row_key(held), capture_row.encode(held))
    return changes


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(Store(tmp_path / "p"), Scheme(), 0, 1)


def host_count(partition: Partition) -> int:
    return sweeps.host_count(partition.store, 1, b"org,example)")


def test_captures_count_once_however_often_they_come(partition: Partition) -> None:
    partition.write(captured(5), [0])
    partition.write(captured(5), [1])
    partition.replay(1, changelog_record.encode(captured(5))[0])
    partition.write(captured(6), [2])
    assert host_count(partition) == 2
    changes = Changes()
    changes.delete(Family.CAPTURES, next(iter(captured(5).puts[Family.CAPTURES])))
    partition.write(changes, [3], retraction=True)
    assert host_count(partition) == 1


def test_the_offset_stops_before_a_gap_until_it_is_read(partition: Partition) -> None:
    partition.write(captured(1), [0])
    partition.write(captured(2), [2])  # another writer got in between
    assert (partition.offset, partition.records_ahead) == (0, 1)
    for offset in (1, 2):
        partition.replay(offset, changelog_record.encode(captured(offset))[0])
    partition.write(captured(3), [3])
    assert (partition.offset, partition.records_ahead) == (3, 0)


def test_offset_and_data_are_kept_together(partition: Partition) -> None:
    partition.write(captured(1), [0, 1])
    path = partition.store.path
    partition.close()
    again = Partition(Store(path), Scheme(), 0, 1)
    assert again.offset == 1
    assert host_count(again) == 1
    again.close()


def test_facts_merge_and_amendments_overwrite(partition: Partition) -> None:
    older, newer = Changes(), Changes()
    older.put(Family.LOCATIONS, b"d" * 16 + KEY, b"\0" * 7 + b"\5")
    newer.put(Family.LOCATIONS, b"d" * 16 + KEY, b"\0" * 7 + b"\7")
    partition.replay(0, changelog_record.encode(older)[0])
    partition.replay(1, changelog_record.encode(newer)[0])
    assert partition.store.get(Family.LOCATIONS, b"d" * 16 + KEY) == b"\0" * 7 + b"\5"
    partition.replay(2, changelog_record.encode(newer, kind=changelog_record.RETRACTION)[0])
    assert partition.store.get(Family.LOCATIONS, b"d" * 16 + KEY) == b"\0" * 7 + b"\7"


def test_a_folder_of_another_partition_is_refused(tmp_path: Path) -> None:
    Partition(Store(tmp_path / "p"), Scheme(), 3, 8).close()
    with Store(tmp_path / "p") as store:
        assert Partition(store, Scheme(), 3, 8).number == 3
        for number, count in ((2, 8), (3, 9)):
            with pytest.raises(StateRefused, match=f"partition 3 of 8, not {number} of {count}"):
                Partition(store, Scheme(), number, count)
