"""Measure how long a partition takes to recover from its changelog, and from a snapshot.

    python -m bench.recovery --documents 100000

The time to receive the changelog from a broker, or a snapshot over a network, is not included.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bench.engine import ingest_file, one_process_settings, temporary_folder, warm_up, write_pages
from bench.measure import Stopwatch
from state import snapshots
from state.changes import Changes
from state.codecs import changelog_record
from state.partition import Partition
from state.snapshots import SnapshotDescription
from state.store import Store


class RecordingStore(Store):
    """A store that keeps its changes as changelog records."""

    def __init__(self, path: Path, records: list[bytes], record_bytes_max: int) -> None:
        self._records, self._record_bytes_max = records, record_bytes_max
        super().__init__(path)

    def write(self, changes: Changes, *, sync: bool = False) -> None:
        self._records += changelog_record.encode(changes, record_bytes_max=self._record_bytes_max)
        super().write(changes, sync=sync)


def recovery(documents: int, words: int) -> dict[str, Any]:
    """Ingest pages, then recover them from their changelog and from a snapshot."""
    settings = one_process_settings()
    replay, take, restore = Stopwatch(), Stopwatch(), Stopwatch()
    records: list[bytes] = []
    with temporary_folder() as folder:
        warm_up(folder, settings)
        pages = write_pages(folder / "pages.jsonl", documents, words_median=words)
        with RecordingStore(folder / "state", records, settings.kafka.pack_bytes) as store:
            ingest_file(store, settings, pages, "sweep")
        with replay.running():
            partition = Partition(Store(folder / "replayed"), settings.scheme, 0, 1)
            for offset, record in enumerate(records):
                partition.replay(offset, 1, record)
        expected = SnapshotDescription.of(partition, 1)
        with take.running():
            partition.store.checkpoint(folder / "checkpoint")
            path = snapshots.write(folder / "snapshots", folder / "checkpoint", expected)
        snapshot_bytes = sum(file.stat().st_size for file in path.iterdir())
        partition.close()
        with restore.running():
            snapshots.restore(folder / "snapshots", expected.offset, folder / "restored", expected)
            restored = Partition(Store(folder / "restored"), settings.scheme, 0, 1)
        assert restored.offset == expected.offset
        restored.close()
    return {
        "documents": documents,
        "changelog_records": len(records),
        "changelog_bytes": sum(map(len, records)),
        "snapshot_bytes": snapshot_bytes,
        "replay": replay.figures(documents),
        "take": take.figures(documents),
        "restore": restore.figures(documents),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the recovery from a changelog with that from a snapshot.")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=300, help="median words per document")
    args = parser.parse_args()
    print(json.dumps(recovery(args.documents, args.words), indent=2))


if __name__ == "__main__":
    main()
