"""A partition replays its changelog, and its offset is never ahead of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from state import sweeps
from state.changes import Changes
from state.codecs import capture_row, changelog_record
from state.errors import StateIncompatible
from state.families import Family
from state.model import Capture
from state.partition import Partition
from state.scheme import Scheme
from state.store import Store

KEY = b"org,example)/a"


def captured(time: int) -> Changes:
    capture = Capture(
        key=KEY,
        url="http://example.org/a",
        sweep=1,
        time=time,
        status=200,
        document=b"d" * 16,
        raw_fingerprint=b"r" * 8,
        tiebreaker=1,
    )
    changes = Changes()
    changes.put(Family.CAPTURES, capture_row.key_of(capture), capture_row.encode(capture))
    return changes


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    return Partition(Store(tmp_path / "p"), Scheme(), 0, 1)


def host_count(partition: Partition) -> int:
    return sweeps.captures_on_host(partition.store, 1, b"org,example)")


def test_a_repeated_capture_counts_once(partition: Partition) -> None:
    partition.write(captured(5), [0])
    partition.write(captured(5), [1])
    partition.replay(1, changelog_record.encode(captured(5))[0])
    partition.write(captured(6), [2])
    assert host_count(partition) == 2
    changes = Changes()
    changes.delete(Family.CAPTURES, next(iter(captured(5).puts[Family.CAPTURES])))
    partition.write(changes, [3], retraction=True)
    assert host_count(partition) == 1


def test_the_offset_stops_before_a_gap_until_the_gap_is_replayed(partition: Partition) -> None:
    partition.write(captured(1), [0])
    partition.write(captured(2), [2])  # another writer wrote offset 1
    assert partition.offset == 0
    assert partition.records_after_gap == 1
    for offset in (1, 2):
        partition.replay(offset, changelog_record.encode(captured(offset))[0])
    partition.write(captured(3), [3])
    assert partition.offset == 3
    assert partition.records_after_gap == 0


def test_offset_and_rows_are_committed_together(partition: Partition) -> None:
    partition.write(captured(1), [0, 1])
    path = partition.store.path
    partition.close()
    again = Partition(Store(path), Scheme(), 0, 1)
    assert again.offset == 1
    assert host_count(again) == 1
    again.close()


def test_facts_merge_and_retractions_overwrite(partition: Partition) -> None:
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
            with pytest.raises(StateIncompatible, match=f"partition 3 of 8, not {number} of {count}"):
                Partition(store, Scheme(), number, count)
