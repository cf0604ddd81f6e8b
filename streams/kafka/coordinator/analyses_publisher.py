"""After each commit, publish the results of the analyses that `analyses.at_commit` lists.

All workers export to a folder inside `kafka.export_folder`. The owner of partition 0 computes the analyses from these
files, and then deletes the files, because `forget` would not remove pages from them. If a worker stops, or partitions
move, the export is repeated. An analysis whose results exceed `analyses.results_mib_max` is not published.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from state.errors import LostfoundError, StateError
from state.model import Sweep
from streams.errors import InputError
from streams.kafka.collection.collection import Collection
from streams.kafka.wire.packed_messages import Topic
from streams.kafka.wire.result_messages import AnalysisResult, Result
from streams.operators.routing import partition_of
from streams.settings import Settings

if TYPE_CHECKING:
    from state.rows import RowReader
    from streams.export.data_set import Part
    from streams.kafka.rows.export_request import ExportRequest

ATTEMPTS_MAX, RETRY_SECONDS = 12, 5.0
RESULTS_PER_BATCH = 1_000
_MIB = 1 << 20
log = structlog.get_logger(__name__)


async def publish_analyses(collection: Collection, sweep: Sweep) -> bool:
    """Publish the results of a committed sweep. Return whether this worker still owns partition 0.

    If the results cannot be computed, log the reason and count the failure.
    """
    runner = collection.runner
    try:
        results = await _compute(collection, sweep)
    except LostfoundError as error:
        log.warning("cannot publish the analyses of a sweep, skipping them", sweep=sweep.name, reason=str(error))
        runner.metrics.add_counts({"analyses_failed": 1})
        results = []
    messages = iter(results)
    while batch := list(islice(messages, RESULTS_PER_BATCH)):
        if 0 not in runner.partitions.active_numbers:
            return False
        await runner.producer.send_results(
            Result(Topic.ANALYSES, _partition(result, runner.context.partition_count), _key(result), result)
            for result in batch
        )
        runner.metrics.results.labels(Topic.ANALYSES.value).inc(len(batch))
    log.info("analyses published", sweep=sweep.name, results=len(results))
    return True


async def _compute(collection: Collection, sweep: Sweep) -> list[AnalysisResult]:
    for attempt in range(1, ATTEMPTS_MAX + 1):
        try:
            return await asyncio.to_thread(lambda: list(find_results(collection, sweep)))
        except StateError as error:
            if attempt == ATTEMPTS_MAX:
                raise
            log.info("cannot publish analyses yet, retrying", sweep=sweep.name, reason=str(error))
            await asyncio.sleep(RETRY_SECONDS)
    return []


def find_results(collection: Collection, sweep: Sweep) -> Iterator[AnalysisResult]:
    """Export the collection, yield the results of all listed analyses as of a sweep, and delete the export.

    Raise InputError if `kafka.export_folder` is not set, and StateError if a worker cannot export now.
    """
    # Imported only here, because the modules of exports and analyses need a hundred MiB of memory.
    from streams.kafka.rows.export_client import export_collection

    settings = collection.runner.settings
    if not settings.kafka.export_folder:
        raise InputError("analyses.at_commit needs a folder for exports", "set kafka.export_folder")
    folder = Path(settings.kafka.export_folder) / f"{settings.kafka.prefix}-at-commit"
    try:
        export_collection(_Exporter(collection), folder)
        yield from _analyse(folder, settings, sweep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _analyse(folder: Path, settings: Settings, sweep: Sweep) -> Iterator[AnalysisResult]:
    from streams.analyses.at_commit import default_analysis
    from streams.analyses.open_session import open_export

    with open_export(folder, settings, sweep.name) as session:
        for name in settings.analyses.at_commit:
            analysis = default_analysis(name)
            lines = [msgspec.json.encode(result) for result in session.results(analysis)]
            if sum(map(len, lines)) > settings.analyses.results_mib_max * _MIB:
                log.warning("results exceed analyses.results_mib_max and are not published", analysis=name)
                continue
            for number, line in enumerate(lines):
                yield AnalysisResult(
                    sweep=sweep.name,
                    analysis=name,
                    method=analysis.method,
                    number=number,
                    results=len(lines),
                    result=msgspec.Raw(line),
                )


class _Exporter:
    """Exports the collection of this worker, as a client would by HTTP."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def store(self) -> RowReader:
        return self._collection.sharded_store()

    def export(self, request: ExportRequest) -> list[Part]:
        return self._collection.export(request)


def _key(result: AnalysisResult) -> bytes:
    return f"{result.analysis} {result.number} {result.sweep}".encode()


def _partition(result: AnalysisResult, partition_count: int) -> int:
    """Return the partition of a result. The results of an analysis share one, in which they keep their order."""
    return partition_of(result.analysis.encode(), partition_count)
