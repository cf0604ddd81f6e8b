"""Test the options of a worker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from state.errors import StateLocked
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


def test_a_folder_belongs_to_one_worker(tmp_path: Path) -> None:
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print('locked'); input()"
    )
    command = [sys.executable, "-u", "-c", code, str(tmp_path / "worker.lock")]
    nowhere = broker.from_environment("127.0.0.1:1", {})
    options = run_worker.WorkerOptions(data_dir=tmp_path)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        with pytest.raises(StateLocked, match="another worker uses the folder"):
            run_worker.run(load(), nowhere, options)
        other.communicate()
    with pytest.raises(InputError, match="cannot be reached"):
        run_worker.run(load(), nowhere, options)
