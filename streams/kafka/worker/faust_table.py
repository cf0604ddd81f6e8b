"""Connects the state to Faust as a table: opens and closes partitions, and replays their changelogs.

Faust assigns partitions to this worker, as owner or standby, and reads their changelogs. The agents never write
through the table. They call `Partition.write` under the partition's lock.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, cast

import faust
import faust.tables
import structlog
from faust.stores.base import Store
from faust.types import TP, EventT

from streams.kafka.process_exit import end_process
from streams.kafka.wire.changelog_reader import epoch_of
from streams.kafka.wire.packed_messages import Headers
from streams.kafka.wire.producer import CHANGELOG_KEY
from streams.kafka.worker.open_partitions import OpenPartitions
from streams.kafka.worker.partition_snapshots import Snapshots

log = structlog.get_logger(__name__)


class TableManager(faust.tables.TableManager):
    """Faust's manager of tables, which starts at once."""

    async def on_start(self) -> None:
        """Start without Faust's pause of one second, in which modules may declare further tables."""
        await self._update_channels()
        await self.recovery.start()


class StateTable(faust.Table[bytes, bytes]):
    """A table that stores its data in the worker's partitions."""

    def _new_store(self) -> StateStore:
        # Faust never opens this URL, but without a host it would behave as if no URL were set.
        return StateStore("lostfound://state", self.app, self)


class StateStore(Store[bytes, bytes]):
    """The worker's partitions, with Faust's interface for stores. `data` stays empty: agents bypass the table."""

    data: Any = MappingProxyType({})

    @property
    def partitions(self) -> OpenPartitions:
        """The worker's partitions."""
        partitions: OpenPartitions = self.app.runner.partitions  # type: ignore[attr-defined]  # our App has a runner
        return partitions

    def persisted_offset(self, tp: TP) -> int | None:
        """Return the offset of the newest changelog record in the partition, or None if it is empty."""
        offset = self.partitions.open(tp.partition).offset
        return offset if offset >= 0 else None

    def set_persisted_offset(self, tp: TP, offset: int) -> None:
        """Do nothing: a partition writes its offset in the same batch as its rows."""

    def apply_changelog_batch(
        self,
        batch: Iterable[EventT[bytes]],
        to_key: Callable[[Any], bytes],  # noqa: ARG002 - Faust's signature
        to_value: Callable[[Any], bytes],  # noqa: ARG002 - Faust's signature
    ) -> None:
        """Replay the workers' records. An error ends the process, because Faust would swallow it and wait forever."""
        try:
            for event in batch:
                message = event.message
                if message.key != CHANGELOG_KEY:
                    fields = {"partition": message.partition, "offset": message.offset}
                    log.error("ignoring a changelog record that no worker wrote", topic=message.topic, **fields)
                    continue
                partition = self.partitions.open(message.partition)
                partition.replay(message.offset, epoch_of(cast(Headers, message.headers)), message.value or b"")
        except BaseException:
            log.exception("replaying a changelog record failed")
            end_process()

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,  # noqa: ARG002 - Faust's signature
    ) -> None:
        """Close revoked partitions, and open assigned partitions, from snapshots if necessary."""
        self.partitions.recovered = False  # the last recovery may have ended after `App.on_rebalance_start`
        changelog = self.table.changelog_topic.get_topic_name()
        self.partitions.active_numbers = frozenset(
            tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == changelog
        )
        for number in sorted(tp.partition for tp in revoked if tp.topic == changelog):
            async with self.partitions.locks[number]:
                self.partitions.close(number)
            log.info("partition closed", partition=number)
        snapshots: Snapshots = self.app.snapshots  # type: ignore[attr-defined]  # our App has snapshots
        await snapshots.prepare({tp.partition for tp in assigned if tp.topic == changelog})
        for number in sorted(tp.partition for tp in newly_assigned if tp.topic == changelog):
            log.info("partition opened", partition=number, active=number in self.partitions.active_numbers)

    def reset_state(self) -> None:
        """Delete the local state, so that it is rebuilt from the changelog."""
        self.partitions.close_all()
        shutil.rmtree(self.partitions.folder / "partitions", ignore_errors=True)

    async def on_stop(self) -> None:
        """Close all partitions."""
        self.partitions.close_all()

    async def backup_partition(self, tp: TP | int, flush: bool = True, purge: bool = False, keep: int = 1) -> None:
        """Raise NotImplementedError. Use `lostfound state backup`, which copies a partition while the worker runs."""
        raise NotImplementedError

    def restore_backup(self, tp: TP | int, latest: bool = True, backup_id: int = 0) -> None:
        """Raise NotImplementedError. Instead, stop the worker and replace the partition's folder with the backup."""
        raise NotImplementedError
