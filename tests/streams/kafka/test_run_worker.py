"""Test the options of a worker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streams.errors import InputError
from streams.kafka import run_worker
from streams.kafka.wire import broker
from streams.settings import load


@pytest.mark.parametrize("url", ["", "http://::1:8080", "127.0.0.1:8080"])
def test_a_worker_with_an_invalid_url_does_not_start(tmp_path: Path, url: str) -> None:
    nowhere = broker.from_environment("127.0.0.1:1", {})
    with pytest.raises(InputError, match=re.escape(f"{url!r} is not the URL of a worker")):
        run_worker.run(load(), nowhere, run_worker.WorkerOptions(data_dir=tmp_path, url=url))
    assert not list(tmp_path.iterdir())
