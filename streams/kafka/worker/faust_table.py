"""The Faust table over the state: opens and closes partitions and replays their changelogs.

Faust says which partitions this worker owns or keeps a standby copy of, and reads their changelogs. The agents never
write through the table; they call `Partition.write` under the partition's lock.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import faust
import structlog
from faust.stores.base import Store as BaseStore
from faust.types import TP, EventT

from streams.kafka.process_exit import end_process
from streams.kafka.worker.open_partitions import OpenPartitions

log = structlog.get_logger(__name__)


class StateTable(faust.Table[bytes, bytes]):
    """A table whose store is the worker's partitions."""

    def _new_store(self) -> StateStore:
        return StateStore(
            "lostfound://state",  # never looked up; Faust takes a URL without a host for a missing one
            self.app,
            self,
            table_name=self.name,
            key_type=self.key_type,
            value_type=self.value_type,
            key_serializer=self.key_serializer,
            value_serializer=self.value_serializer,
        )


class StateStore(BaseStore[bytes, bytes]):
    """The partitions behind Faust's interface for stores."""

    @property
    def partitions(self) -> OpenPartitions:
        """The worker's partitions."""
        partitions: OpenPartitions = self.app.runner.partitions  # type: ignore[attr-defined]  # our App has a runner
        return partitions

    def persisted_offset(self, tp: TP) -> int | None:
        """Return the changelog offset up to which the partition is written; None if it is empty."""
        offset = self.partitions.open(tp.partition).offset
        return offset if offset >= 0 else None

    def set_persisted_offset(self, tp: TP, offset: int) -> None:
        """Do nothing: a partition writes its offset in the same batch as its rows."""

    async def need_active_standby_for(self, tp: TP) -> bool:  # noqa: ARG002
        """Return True: workers share no folders, so a standby always needs its own copy."""
        return True

    def apply_changelog_batch(
        self,
        batch: Iterable[EventT[bytes]],
        to_key: Callable[[Any], bytes],  # noqa: ARG002
        to_value: Callable[[Any], bytes],  # noqa: ARG002
    ) -> None:
        """Replay changelog records.

        An error ends the process: Faust would swallow it and wait for ever.
        """
        try:
            for event in batch:
                message = event.message
                self.partitions.open(message.partition).replay(message.offset, message.value or b"")
        except BaseException:
            log.exception("replaying a changelog record failed")
            end_process()

    async def on_rebalance(
        self,
        assigned: set[TP],  # noqa: ARG002
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,  # noqa: ARG002
    ) -> None:
        """Close revoked partitions and open newly assigned ones."""
        topic = self.table.changelog_topic.get_topic_name()
        self.partitions.active = frozenset(
            tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == topic
        )
        for tp in sorted(revoked):
            if tp.topic == topic:
                async with self.partitions.locks[tp.partition]:
                    self.partitions.close(tp.partition)
                log.info("partition closed", partition=tp.partition)
        for tp in sorted(newly_assigned):
            if tp.topic == topic:
                self.partitions.open(tp.partition)
                log.info("partition opened", partition=tp.partition, active=tp.partition in self.partitions.active)

    def reset_state(self) -> None:
        """Delete the local state; it is recovered from the changelog."""
        self.partitions.close_all()
        shutil.rmtree(self.partitions.folder / "partitions", ignore_errors=True)

    async def on_stop(self) -> None:
        """Close all partitions."""
        self.partitions.close_all()

    async def backup_partition(self, tp: TP | int, flush: bool = True, purge: bool = False, keep: int = 1) -> None:
        """Unsupported: `lostfound state backup` copies a partition's folder while the worker runs."""
        raise NotImplementedError("use `lostfound state backup`")

    def restore_backup(self, tp: TP | int, latest: bool = True, backup_id: int = 0) -> None:
        """Unsupported: a backup is a folder."""
        raise NotImplementedError("copy the backup's folder to where the partition was before starting the worker")

    # Faust wants a store to be a mapping. The state is not one, and no code reads it as one.
    def __getitem__(self, key: bytes) -> bytes:
        raise KeyError(key)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        raise TypeError("write the state with Partition.write")

    def __delitem__(self, key: bytes) -> None:
        raise TypeError("write the state with Partition.write")

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def __len__(self) -> int:
        return 0
