"""Test when a worker regards its partitions as recovered."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from streams.kafka.worker.faust_app import App


@pytest.mark.parametrize(
    ("recovered_generation", "restarts", "expected"), [(2, False, True), (1, False, False), (2, True, False)]
)
def test_a_recovery_that_ends_after_the_next_assignment_does_not_count(
    recovered_generation: int, restarts: bool, expected: bool
) -> None:
    async def end_recovery() -> bool:
        partitions = SimpleNamespace(recovered=True)
        settings = SimpleNamespace(kafka=SimpleNamespace(session_seconds=1.0))
        runner = SimpleNamespace(partitions=partitions, settings=settings)
        app = App(SimpleNamespace(runner=runner), None, "test", broker="kafka://127.0.0.1:1")  # type: ignore[arg-type]
        app.on_rebalance_start()
        assert not partitions.recovered
        app.consumer_generation_id = 2
        tables: Any = app.tables
        recovery = tables.recovery
        recovery._generation_id = recovered_generation
        if restarts:
            recovery.signal_recovery_start.set()
        app.on_rebalance_end()
        return app.ready

    assert asyncio.run(end_recovery()) == expected
