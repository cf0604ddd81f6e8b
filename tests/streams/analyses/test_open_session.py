"""Results of analyses are computed from an export of the state, stored in the state, and loaded while they are valid."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest

from state import sweeps
from state.errors import StateError
from state.families import Family
from state.store import Store
from streams.analyses import export_cache
from streams.analyses.analysis_session import Analysis, Progress, Session
from streams.analyses.open_session import open_export, open_state
from streams.errors import InputError
from streams.export.duckdb_connection import SqlLimits
from streams.export.run_export import export_state
from streams.forgetting import cancel_sweep, commit_removals
from tests.samples import page, settings, take

SETTINGS = settings({"analyses": {"memory_mib": 256, "threads": 1}})
HOSTS = ["a.example", "b.example"]


class HostPages(msgspec.Struct, frozen=True):
    host: str
    pages: int


class PageCount:
    """An analysis that counts the pages of each host, and how often it was computed."""

    def __init__(self, method: str = "all") -> None:
        self.computed = 0
        self.analysis = Analysis("page_count", method, HostPages, self.compute)

    def compute(self, session: Session) -> Sequence[HostPages]:
        self.computed += 1
        session.counters["hosts_max"] += 1
        rows = session.engine.rows(
            """
            SELECT name, count(*) FROM pages JOIN (SELECT DISTINCT host, name FROM hosts) AS h ON h.host = pages.host
            GROUP BY name ORDER BY name
            """
        )
        return [HostPages(*row) for row in rows]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Store(tmp_path / "state") as store:
        ingest(store, tmp_path, "one", 3)
    return tmp_path / "state"


def ingest(store: Store, folder: Path, sweep: str, pages: int, **options: bool) -> None:
    lines = [page(f"https://{host}/{n}", f"page {n} of {host}") for host in HOSTS for n in range(pages)]
    take(store, folder / f"{sweep}.jsonl", lines, sweep, SETTINGS, **options)


def analyse(
    folder: Path,
    count: PageCount,
    sweep_name: str | None = None,
    progress: Progress = Progress(),  # noqa: B008
) -> list[int]:
    with open_state(folder, SETTINGS, sweep_name, progress) as session:
        results = session.results(count.analysis)
        assert session.counters == {"hosts_max": 1}
    return [result.pages for result in results]


def test_stored_results_are_loaded(folder: Path) -> None:
    count = PageCount()
    assert [analyse(folder, count), analyse(folder, count)] == [[3, 3], [3, 3]]
    assert count.computed == 1
    assert analyse(folder, PageCount("other")) == [3, 3]
    assert not list((folder / export_cache.CACHE_FOLDER).glob("lostfound-sql-*"))


def test_results_of_a_sweep_remain_valid_after_later_sweeps(folder: Path, tmp_path: Path) -> None:
    count = PageCount()
    analyse(folder, count)
    with Store(folder) as store:
        ingest(store, tmp_path, "two", 5)
        ingest(store, tmp_path, "three", 9, keep_open=True)
    assert analyse(folder, count, "one") == [3, 3]
    assert count.computed == 1
    assert analyse(folder, count) == [5, 5]  # the open sweep does not count
    with open_state(folder, SETTINGS) as session:
        assert session.sweep.name == "two"
        assert [result.pages for result in session.at("one").results(PageCount("other").analysis)] == [3, 3]
        assert [result.pages for result in session.results(PageCount("other").analysis)] == [5, 5]


def test_an_earlier_sweep_that_is_committed_later_changes_results(folder: Path, tmp_path: Path) -> None:
    with Store(folder) as store:
        ingest(store, tmp_path, "two", 5, keep_open=True)
        lines = [page("https://a.example/0", "page 0")]
        take(store, tmp_path / "three.jsonl", lines, "three", SETTINGS)
    count = PageCount()
    assert analyse(folder, count) == [1, 3]
    with Store(folder) as store:
        sweeps.commit(store, sweeps.all_sweeps(store)[1], 1)
    assert analyse(folder, count) == [1, 5]


def test_changed_settings_change_results(folder: Path) -> None:
    count = PageCount()
    analyse(folder, count)
    other = settings({"analyses": {"memory_mib": 300, "threads": 2, "results_mib_max": 9}})
    with open_state(folder, other) as session:
        session.results(count.analysis)
    assert count.computed == 1


def test_results_are_not_stored_while_another_process_writes(folder: Path) -> None:
    count = PageCount()
    with Store(folder):
        assert analyse(folder, count) == [3, 3]
    assert analyse(folder, count) == [3, 3]
    assert count.computed == 2


def test_results_that_are_too_large_are_not_stored(folder: Path) -> None:
    large = Analysis("large", "all", HostPages, lambda _: [HostPages("x" * (1 << 20), 1)])
    small_limit = settings({"analyses": {"results_mib_max": 1}})
    with open_state(folder, small_limit) as session:
        assert session.results(large)[0].pages == 1
    with Store(folder, writable=False) as store:
        assert list(store.scan(Family.ANALYSES)) == []


def test_an_export_gives_the_same_results(folder: Path, tmp_path: Path) -> None:
    with Store(folder) as store:
        ingest(store, tmp_path, "two", 5, keep_open=True)
        export_state(store, tmp_path / "export", SqlLimits(256, 1))
    count = PageCount()
    for _ in range(2):
        with open_export(tmp_path / "export", SETTINGS) as session:
            assert session.sweep.name == "one"
            assert session.results(count.analysis) == [HostPages("example,a)", 3), HostPages("example,b)", 3)]
    assert count.computed == 2
    with pytest.raises(InputError, match="'two' is open"), open_export(tmp_path / "export", SETTINGS, "two"):
        pass
    with pytest.raises(InputError, match="no export"), open_export(tmp_path / "absent", SETTINGS):
        pass


def test_a_sweep_that_cannot_be_analysed_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"), open_state(folder, SETTINGS, "two"):
        pass
    with Store(tmp_path / "new") as store:
        ingest(store, tmp_path, "one", 1, keep_open=True)
    with pytest.raises(InputError, match="no sweep is committed"), open_state(tmp_path / "new", SETTINGS):
        pass


def test_a_partition_is_refused(folder: Path) -> None:
    from state import meta

    with Store(folder) as store:
        meta.claim_partition(store, 0, 2)
    with pytest.raises(StateError, match="one partition"), open_state(folder, SETTINGS):
        pass


def test_a_folder_that_is_not_writable_needs_no_cache(folder: Path) -> None:
    (folder / export_cache.CACHE_FOLDER).write_text("in the way")
    assert analyse(folder, PageCount()) == [3, 3]


def test_an_analysis_waits_for_another_one(folder: Path) -> None:
    activities: list[str] = []
    is_waiting = threading.Event()

    def begin(activity: str) -> None:
        activities.append(activity)
        if "waiting" in activity:
            is_waiting.set()

    thread = threading.Thread(target=partial(analyse, folder, PageCount(), progress=Progress(begin)))
    with export_cache.lock(folder):
        thread.start()
        assert is_waiting.wait(30)
    thread.join()
    assert activities == [
        "waiting for another analysis of this state", "exporting", "selecting pages", "computing page_count",
    ]  # fmt: skip


def test_nothing_is_kept_of_an_interrupted_removal(folder: Path, tmp_path: Path) -> None:
    with Store(folder) as store:
        ingest(store, tmp_path, "two", 5)
        removals = cancel_sweep(store, sweeps.all_sweeps(store)[1])
        store.write(next(removals).changes)
    count = PageCount()
    assert analyse(folder, count) == [3, 3]
    assert not (folder / export_cache.CACHE_FOLDER).exists()
    assert analyse(folder, count) == [3, 3]
    assert count.computed == 2


def test_results_with_other_fields_are_computed_again(folder: Path) -> None:
    class Other(msgspec.Struct, frozen=True):
        name: str

    other = Analysis("page_count", "all", Other, lambda _: [Other("x")])
    with open_state(folder, SETTINGS) as session:
        session.results(other)
    assert analyse(folder, PageCount()) == [3, 3]


def test_a_sweep_that_is_cancelled_before_the_export_is_not_analysed(folder: Path, tmp_path: Path) -> None:
    with Store(folder) as store:
        ingest(store, tmp_path, "two", 5)
    with open_state(folder, SETTINGS) as session:
        with Store(folder) as store:
            commit_removals(cancel_sweep(store, sweeps.all_sweeps(store)[1]), store.write)
        with pytest.raises(InputError, match="does not exist"):
            session.results(PageCount().analysis)
    with Store(folder, writable=False) as store:
        assert list(store.scan(Family.ANALYSES)) == []
