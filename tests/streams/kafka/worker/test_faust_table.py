"""Test how the state is connected to Faust as a table."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import faust
import pytest

from streams.kafka.worker.faust_table import TableManager


def test_tables_start_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def record(step: str) -> Any:
        async def run(*_: object) -> None:
            steps.append(step)

        return run

    async def start() -> None:
        manager = TableManager(faust.App("test", broker="kafka://127.0.0.1:1"))
        await manager.on_start()

    monkeypatch.setattr(TableManager, "sleep", record("sleep"))
    monkeypatch.setattr(TableManager, "_update_channels", record("update_channels"))
    monkeypatch.setattr(TableManager, "recovery", SimpleNamespace(start=record("recovery")))
    asyncio.run(start())
    assert steps == ["update_channels", "recovery"]
