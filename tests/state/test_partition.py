"""A partition replays its changelog, and its offset is never ahead of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from state import meta, sweeps
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
    partition = Partition(Store(tmp_path / "p"), Scheme(), 0, 1)
    partition.replay(0, 1, changelog_record.CLAIM)
    partition.claimed_epoch = 1
    return partition


def host_count(partition: Partition) -> int:
    return sweeps.captures_on_host(partition.store, 1, b"org,example)")


def test_a_repeated_capture_counts_once(partition: Partition) -> None:
    partition.write(captured(5), 1)
    partition.write(captured(5), 2)
    partition.replay(2, 1, changelog_record.encode(captured(5))[0])
    partition.write(captured(6), 3)
    assert host_count(partition) == 2
    changes = Changes()
    changes.delete(Family.CAPTURES, next(iter(captured(5).puts[Family.CAPTURES])))
    partition.write(changes, 4, retraction=True)
    assert host_count(partition) == 1


def test_records_of_a_former_owner_are_void(partition: Partition) -> None:
    partition.replay(1, 2, changelog_record.CLAIM)  # another worker has claimed the partition
    assert not partition.is_claimed
    partition.replay(2, 1, changelog_record.encode(captured(1))[0])
    partition.replay(3, 2, changelog_record.encode(captured(2))[0])
    assert host_count(partition) == 1
    assert (partition.offset, partition.epoch) == (3, 2)


def test_the_highest_epoch_of_each_sender_is_stored(partition: Partition) -> None:
    changes = Changes()
    meta.put_sender_epoch(changes, "joins", 3, 7)
    partition.write(changes, 1)
    path = partition.store.path
    partition.close()
    again = Partition(Store(path), Scheme(), 0, 1)
    assert again.sender_epochs == {("joins", 3): 7}
    again.close()


def test_offset_and_rows_are_committed_together(partition: Partition) -> None:
    partition.write(captured(1), 1)
    path = partition.store.path
    partition.close()
    again = Partition(Store(path), Scheme(), 0, 1)
    assert (again.offset, again.epoch) == (1, 1)
    assert not again.is_claimed
    assert host_count(again) == 1
    again.close()


def test_facts_merge_and_retractions_overwrite(partition: Partition) -> None:
    older, newer = Changes(), Changes()
    older.put(Family.LOCATIONS, b"d" * 16 + KEY, b"\0" * 7 + b"\5")
    newer.put(Family.LOCATIONS, b"d" * 16 + KEY, b"\0" * 7 + b"\7")
    partition.replay(1, 1, changelog_record.encode(older)[0])
    partition.replay(2, 1, changelog_record.encode(newer)[0])
    assert partition.store.get(Family.LOCATIONS, b"d" * 16 + KEY) == b"\0" * 7 + b"\5"
    partition.replay(3, 1, changelog_record.encode(newer, kind=changelog_record.RETRACTION)[0])
    assert partition.store.get(Family.LOCATIONS, b"d" * 16 + KEY) == b"\0" * 7 + b"\7"


def test_a_folder_of_another_partition_is_refused(tmp_path: Path) -> None:
    Partition(Store(tmp_path / "p"), Scheme(), 3, 8).close()
    with Store(tmp_path / "p") as store:
        assert Partition(store, Scheme(), 3, 8).number == 3
        for number, count in ((2, 8), (3, 9)):
            with pytest.raises(StateIncompatible, match=f"partition 3 of 8, not {number} of {count}"):
                Partition(store, Scheme(), number, count)
