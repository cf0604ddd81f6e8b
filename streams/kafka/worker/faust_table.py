"""The Faust table whose store is our state: it opens and closes partitions and replays their changelog.

Faust's part is to say which partitions this worker holds or stands by for, and to read their changelogs. The agents
write by `Partition.write`, under the partition's lock, and never through the table.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import structlog
from faust.stores import STORES
from faust.stores.base import Store as BaseStore
from faust.types import TP, EventT

from streams.kafka.process_exit import end_process
from streams.kafka.worker.open_partitions import Partitions

URL = "lostfound://state"  # a URL without a host counts as none
STORES.aliases["lostfound"] = "streams.kafka.worker.faust_table:TableStore"
log = structlog.get_logger(__name__)


class TableStore(BaseStore[bytes, bytes]):
    """What Faust sees of the partitions."""

    partitions: Partitions  # set by the app before the table starts

    def persisted_offset(self, tp: TP) -> int | None:
        """The offset up to which the changelog is in the partition; None when nothing is."""
        offset = self.partitions.open(tp.partition).offset
        return offset if offset >= 0 else None

    def set_persisted_offset(self, tp: TP, offset: int) -> None:
        """Nothing to do: data and offset are written in one batch."""

    async def need_active_standby_for(self, tp: TP) -> bool:  # noqa: ARG002
        """Every worker has a folder of its own."""
        return True

    def apply_changelog_batch(
        self,
        batch: Iterable[EventT[bytes]],
        to_key: Callable[[Any], bytes],  # noqa: ARG002
        to_value: Callable[[Any], bytes],  # noqa: ARG002
    ) -> None:
        """Replay records; Faust would swallow an error and wait for ever, so that one ends the process."""
        try:
            for event in batch:
                message = event.message
                self.partitions.open(message.partition).replay(message.offset, message.value or b"")
        except BaseException:
            log.exception("a changelog record was not replayed")
            end_process()

    async def on_rebalance(
        self,
        assigned: set[TP],  # noqa: ARG002
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,  # noqa: ARG002
    ) -> None:
        """Close what went to others, open what came."""
        topic = self.table.changelog_topic.get_topic_name()
        self.partitions.actives = frozenset(
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
                log.info("partition opened", partition=tp.partition, active=tp.partition in self.partitions.actives)

    def reset_state(self) -> None:
        """Remove the local state; the changelog brings it back."""
        self.partitions.close_all()
        shutil.rmtree(self.partitions.folder / "partitions", ignore_errors=True)

    async def on_stop(self) -> None:
        """Close all partitions."""
        self.partitions.close_all()

    async def backup_partition(self, tp: TP | int, flush: bool = True, purge: bool = False, keep: int = 1) -> None:
        """Not Faust's: `lostfound state backup` copies a partition's folder live."""
        raise NotImplementedError("lostfound state backup")

    def restore_backup(self, tp: TP | int, latest: bool = True, backup_id: int = 0) -> None:
        """Not Faust's: a backup is a folder, put it in place before the start."""
        raise NotImplementedError("put the backup's folder in place")

    # The mapping that Faust wants a store to be: the state is no mapping, and nobody reads it as one.
    def __getitem__(self, key: bytes) -> bytes:
        raise KeyError(key)

    def __setitem__(self, key: bytes, value: bytes) -> None:
        raise TypeError("the state is written by Partition.write")

    def __delitem__(self, key: bytes) -> None:
        raise TypeError("the state is written by Partition.write")

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def __len__(self) -> int:
        return 0
