"""Takes snapshots of the partitions that this worker owns, and restores partitions from snapshots.

Without snapshots, a partition is recovered from its whole changelog. If all workers share the folder of the
snapshots, the owner of a partition keeps two snapshots, and deletes the changelog records before the older one. Even
if the newer snapshot is damaged, the older one and the remaining changelog are complete.

If records after a partition's own offset have been deleted, Faust silently skips them. Therefore, `prepare` compares
this offset with the start of the changelog before each recovery, and `ensure_complete` compares it again when Faust
has read that start.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Collection
from pathlib import Path

import structlog
from aiokafka.errors import KafkaError

from state import snapshots
from state.errors import StateError
from state.partition import Partition
from state.snapshots import SnapshotDescription
from streams.errors import InputError
from streams.kafka.process_exit import end_process
from streams.kafka.wire.changelog_range import ChangelogRange
from streams.kafka.worker.metrics import Metrics
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.settings import KafkaSettings

POLL_SECONDS = 0.5
RETRY_SECONDS = 60.0  # after a snapshot has failed, for example because the disk is full
PAUSE_FACTOR = 9  # each snapshot is followed by a pause of this many times its duration
_SHARED_SNAPSHOTS, _LOCAL_SNAPSHOTS = 2, 1  # per partition, if the folder is shared or not
log = structlog.get_logger(__name__)


def check_folder(settings: KafkaSettings) -> None:
    """Raise InputError if a shared folder is configured but absent, for example because it is not mounted."""
    if settings.snapshot_folder and not Path(settings.snapshot_folder).is_dir():
        message = f"the folder {settings.snapshot_folder} for snapshots does not exist"
        raise InputError(message, "mount or create the folder, or change kafka.snapshot_folder")


class Snapshots:
    """Takes snapshots of a worker's partitions, removes old ones, and restores partitions."""

    def __init__(
        self, settings: KafkaSettings, partitions: OpenPartitions, changelog_range: ChangelogRange, metrics: Metrics
    ) -> None:
        self._partitions, self._range, self._metrics = partitions, changelog_range, metrics
        self._records_per_snapshot = settings.snapshot_records
        self._is_shared = bool(settings.snapshot_folder)
        folder = Path(settings.snapshot_folder) if self._is_shared else partitions.folder / "snapshots"
        self._folder = folder / settings.prefix
        self._checkpoints, self._restored = partitions.folder / "checkpoints", partitions.folder / "restored"
        for temporary in (self._checkpoints, self._restored):
            shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
        self._newest_offsets: dict[int, int] = {}  # the offset of the newest known snapshot, by partition
        self._next_time = 0.0  # no snapshot is taken before this time of the monotonic clock

    def folder(self, number: int) -> Path:
        """Return the folder with the snapshots of a partition."""
        return self._folder / str(number)

    async def run(self) -> None:
        """Take snapshots until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            for number in sorted(self._partitions.active_numbers):
                if time.monotonic() >= self._next_time:
                    await self._take_if_due(number)

    async def _take_if_due(self, number: int) -> None:
        started = time.monotonic()
        try:
            if await self._is_due(number) and await self._take(number):
                await self._trim(number)
                self._next_time = time.monotonic() + PAUSE_FACTOR * (time.monotonic() - started)
        except (OSError, StateError, KafkaError, TimeoutError) as error:
            self._next_time = time.monotonic() + RETRY_SECONDS
            self._metrics.snapshots_failed.inc()
            log.warning("snapshot failed", partition=number, error=str(error) or repr(error))

    async def _is_due(self, number: int) -> bool:
        partition = self._partitions.recovered_partition(number)
        if not self._records_per_snapshot or partition is None or not partition.is_claimed:
            return False
        offset = partition.offset
        if offset - self._newest_offsets.get(number, -1) < self._records_per_snapshot:
            return False
        # The partition may have had another owner in the meantime.
        offsets = await asyncio.to_thread(snapshots.list_offsets, self.folder(number))
        self._newest_offsets[number] = offsets[0] if offsets else -1
        return offset - self._newest_offsets[number] >= self._records_per_snapshot

    async def _take(self, number: int) -> bool:
        """Take a snapshot and return True, or return False if this worker has just lost the partition."""
        checkpoint = self._checkpoints / str(number)
        await asyncio.to_thread(_remove_folder, checkpoint)
        async with self._partitions.locks[number]:
            partition = self._partitions.recovered_partition(number)
            if partition is None or not partition.is_claimed:
                return False
            snapshot = SnapshotDescription.of(partition, self._partitions.partition_count)
            await asyncio.to_thread(partition.store.checkpoint, checkpoint)
        try:
            await asyncio.to_thread(snapshots.write, self.folder(number), checkpoint, snapshot)
        finally:
            await asyncio.to_thread(shutil.rmtree, checkpoint, ignore_errors=True)
        self._newest_offsets[number] = snapshot.offset
        self._metrics.snapshots.inc()
        log.info("snapshot taken", partition=number, offset=snapshot.offset)
        return True

    async def _trim(self, number: int) -> None:
        """Remove old snapshots and, if all workers can read the remaining ones, the records before them."""
        count = _SHARED_SNAPSHOTS if self._is_shared else _LOCAL_SNAPSHOTS
        offset = await asyncio.to_thread(snapshots.remove_old, self.folder(number), count)
        if self._is_shared and offset is not None:
            # The record at this offset remains, because Faust starts there and skips it.
            await self._range.trim(number, offset)

    async def prepare(self, numbers: Collection[int]) -> None:
        """Open partitions. Restore those that lack deleted records or are far behind their newest snapshot.

        Raise StateError if a partition lacks deleted records, and no intact snapshot contains them.
        """
        ranges = await self._range.read(numbers)
        for number in sorted(numbers):
            partition = self._partitions.by_number.get(number)
            if partition is not None and _has_needed_records(partition.offset, ranges[number].start):
                continue  # do not wait for the lock, which a batch may hold
            async with self._partitions.locks[number]:
                await self._prepare(number)

    async def _prepare(self, number: int) -> None:
        partition = self._partitions.open(number)
        own_offset, expected = partition.offset, SnapshotDescription.of(partition, self._partitions.partition_count)
        tried_offsets: set[int] = set()
        previous_offsets: list[int] | None = None
        while True:  # the owner may be replacing old snapshots and trimming the changelog
            offsets = await asyncio.to_thread(snapshots.list_offsets, self.folder(number))
            changelog = (await self._range.read([number]))[number]
            has_gap = not _has_needed_records(own_offset, changelog.start)
            offset_min = own_offset + (1 if has_gap else max(1, self._records_per_snapshot))
            # A snapshot whose offset is after the end belongs to an earlier collection with the same prefix.
            usable_offsets = [offset for offset in offsets if offset >= offset_min and offset in changelog]
            untried_offsets = [offset for offset in usable_offsets if offset not in tried_offsets]
            if untried_offsets:
                if await self._restore(number, untried_offsets[0], expected):
                    return
                tried_offsets.add(untried_offsets[0])
            elif not has_gap:
                return
            elif offsets == previous_offsets:
                break
            previous_offsets = offsets
        raise StateError(
            f"the changelog of partition {number} starts at offset {changelog.start}, but the partition ends at"
            f" offset {own_offset}, and {self.folder(number)} has no intact snapshot that fills the gap",
            "check that kafka.snapshot_folder is the folder that all workers share; the log names each damaged"
            " snapshot",
        )

    async def _restore(self, number: int, offset: int, expected: SnapshotDescription) -> bool:
        """Replace an open partition by a snapshot. Return False if the snapshot cannot be used."""
        started = time.monotonic()
        copy = self._restored / str(number)
        try:
            await asyncio.to_thread(snapshots.restore, self.folder(number), offset, copy, expected)
        except StateError as error:
            self._metrics.snapshots_unusable.inc()
            log.warning("snapshot not used", partition=number, offset=offset, error=str(error))
            await asyncio.to_thread(_remove_folder, copy)
            return False
        self._partitions.close(number)
        target = self._partitions.path(number)
        await asyncio.to_thread(shutil.rmtree, target)
        copy.rename(target)
        partition = self._partitions.open(number)
        assert partition.offset == offset
        self._metrics.snapshots_restored.inc()
        seconds = round(time.monotonic() - started, 1)
        log.info("partition restored from a snapshot", partition=number, offset=offset, seconds=seconds)
        return True

    def ensure_complete(self, number: int, start: int) -> None:
        """End the process if an open partition lacks records that have been deleted since `prepare`."""
        partition: Partition | None = self._partitions.by_number.get(number)
        if partition is not None and not _has_needed_records(partition.offset, start):
            fields = {"partition": number, "offset": partition.offset, "start": start}
            log.error("changelog records were deleted before they were read", **fields)
            end_process()


def _has_needed_records(offset: int, start: int) -> bool:
    """Return whether a changelog that starts at `start` has all records that a partition at `offset` needs.

    Faust starts at the record at the partition's offset, so this record must exist too.
    """
    return start <= max(offset, 0)


def _remove_folder(folder: Path) -> None:
    """Remove a folder, but make sure that its parent exists."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
