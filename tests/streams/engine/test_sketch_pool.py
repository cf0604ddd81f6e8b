"""The pool returns results in order and raises errors; all its processes end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streams.engine.sketch_pool import SketchPool
from streams.errors import WorkerDied
from streams.operators.messages import SketchedPage
from streams.operators.sketch import SketchTask
from streams.page import Page
from tests.samples import NOW, settings

SETTINGS = settings()
ROOT = Path(__file__).parents[2]


def workers(count: int) -> SketchPool:
    return SketchPool(count, SETTINGS.scheme, SETTINGS.policy, SETTINGS.limits)


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_a_task_is_raised_by_its_result(count: int) -> None:
    broken = SketchTask(1, [None])  # type: ignore[list-item]
    with workers(count) as pool:
        if count > 1:
            failed, fine = pool.submit(broken), pool.submit(task(1))
            with pytest.raises(AttributeError, match="original_url") as raised:
                failed.result(timeout=60)
            assert "in _serve" in "".join(raised.value.__notes__)
            assert fine.result(timeout=60)
        else:
            with pytest.raises(AttributeError, match="original_url"):
                pool.submit(broken)


def test_a_worker_that_is_killed_fails_its_task_and_ends_with_the_others() -> None:
    """It can be waiting, reading a task or writing a result."""
    large = SketchTask(1, [Page(url=f"https://a.org/{n}", time=NOW, text=f"{n} " * 50_000) for n in range(40)])
    for pause in (0.0, 0.05, 0.2):
        with workers(2) as pool:
            results = [pool.submit(large) for _ in range(6)]
            time.sleep(pause)
            pool._processes[0].kill()
            with pytest.raises(WorkerDied, match="was killed"):
                [result.result(timeout=60) for result in results]
        assert not any(process.is_alive() for process in pool._processes)


def task(number: int) -> SketchTask:
    pages = [
        Page(url=f"https://a.org/{number}/{n}", time=NOW, text=f"page {n} of task {number} has words")
        for n in range(5)
    ]
    return SketchTask(number, pages)


@pytest.mark.parametrize("count", [1, 2])
def test_results_are_in_the_order_of_the_tasks(count: int) -> None:
    with workers(count) as pool:
        results = [pool.submit(task(number)) for number in range(6)]
        for number, result in enumerate(results):
            pages = [page for page_results in result.result(timeout=60) for page in page_results]
            assert all(isinstance(page, SketchedPage) for page in pages)
            keys = [page.capture.key for page in pages if isinstance(page, SketchedPage)]
            assert keys == [f"org,a)/{number}/{n}".encode() for n in range(5)]


def test_one_process_and_several_give_the_same_results() -> None:
    with workers(1) as here, workers(2) as pool:
        assert here.submit(task(3)).result() == pool.submit(task(3)).result(timeout=60)


PARENT = """
import os, signal, sys, time
from streams.settings import load
from streams.engine.sketch_pool import SketchPool
from streams.operators.sketch import SketchTask
from streams.page import Page

if __name__ == "__main__":
    settings = load()
    pool = SketchPool(2, settings.scheme, settings.policy, settings.limits)
    for n in range(2):
        pool.submit(SketchTask(1, [Page(url="https://a.org/", time=1, text="some words")])).result()
    print(*[process.pid for process in pool._processes], flush=True)
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look for processes in")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent(tmp_path: Path, by: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) >= 1
    assert all(map(is_alive, pids))
    parent.send_signal(by)
    parent.wait(timeout=30)
    parent.stdout.close()
    until = time.monotonic() + 20
    while any(map(is_alive, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("types", "json", "streams"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a')\nraise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    with workers(2) as pool:
        assert len(pool.submit(task(1)).result(timeout=60)) == 5
    assert not (tmp_path / "ran").exists()
