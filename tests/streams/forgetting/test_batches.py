"""Test that removals of any size, and removals that a crash interrupted, give the same state in linear time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from state import meta, sweeps
from state.changes import Changes
from state.check import check
from state.codecs import capture_row
from state.families import Family
from state.model import Capture
from state.store import Store
from state.view import View
from streams.forgetting import (
    Removal,
    cancel_sweep,
    commit_removals,
    detachment,
    finish_interrupted_removals,
    forget_url,
    removal,
)
from streams.operators import forest
from streams.operators.join import union
from streams.terminal import progress_bars
from streams.urls import url_key
from tests.samples import NOW, Line, page, settings, take, variant, words

URL = "https://a.org/x"
Facts = dict[Family, dict[bytes, bytes]]
Start = Callable[[Store], Iterator[Removal]]


def start_forgetting(store: Store) -> Iterator[Removal]:
    return forget_url(store, url_key(URL))


def start_cancelling(store: Store) -> Iterator[Removal]:
    sweep = sweeps.named(store, "two")
    return iter(()) if sweep is None else cancel_sweep(store, sweep)


COMMANDS = {"forget": start_forgetting, "cancel": start_cancelling}


def build(folder: Path, versions: int = 24) -> Store:
    """Return a state with two sweeps, in which versions of a page have a URL in common and other versions do not."""
    rng = random.Random(4)
    base = words(rng, 120)
    texts = [" ".join(variant(rng, base, 2)) for _ in range(versions)]
    store = Store(folder / "state")
    for number, sweep in enumerate(("one", "two")):
        lines: list[Line] = []
        for n, text in enumerate(texts):
            time = NOW + 100_000 * number + 1_000 * n
            if n % 4 != 3 - number:
                lines.append(page(URL if n % 3 else f"https://b.org/{n}", text, time))
            if n % 6 == 5 * number:
                lines.append(page(f"https://c.org/{n}", text, time + 1))
        take(store, folder / f"{sweep}.jsonl", lines, sweep, settings())
    assert len(list(store.scan(Family.EDGES))) > versions
    return store


def facts(store: Store) -> Facts:
    """Return all rows but cursors, with roots instead of parents, which depend on the order of the unions."""
    rows: Facts = {family: dict(store.scan(family)) for family in Family if family is not Family.META}
    rows[Family.META] = {b"counters": store.get(Family.META, b"counters") or b""}
    view = View(store)
    rows[Family.PARENTS] = {node: view.root(node) for node in rows[Family.PARENTS]}
    assert list(check(store, postings_max=32)) == []
    return rows


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Facts]:
    """Return the state after each command if one removal does everything."""
    results = {}
    for name, start in COMMANDS.items():
        with build(tmp_path_factory.mktemp(name)) as store:
            commit_removals(start(store), store.write)
            results[name] = facts(store)
            assert results[name][Family.EDGES], "the test needs clusters that remain"
    return results


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("captures", [1, 2, 5, 13])
def test_removals_of_any_size_give_the_same_state(
    name: str, captures: int, expected: dict[str, Facts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", captures)
    with build(tmp_path) as store:
        commits: list[Removal] = []
        commit_removals(COMMANDS[name](store), store.write, commits.append)
        assert facts(store) == expected[name]
        assert len([commit for commit in commits if commit.captures]) > 10 // captures


class Killed(Exception):
    """The process was killed."""


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("resume", ["same command", "next writer"])
def test_an_interrupted_command_is_finished(
    name: str, resume: str, expected: dict[str, Facts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 2)
    with build(tmp_path) as store:
        for commits_max in (1, 2, 3):
            remaining = commits_max

            def write(changes: Changes) -> None:
                nonlocal remaining
                remaining -= 1
                if remaining < 0:
                    raise Killed
                store.write(changes)

            with pytest.raises(Killed):
                commit_removals(COMMANDS[name](store), write)
            assert list(check(store, postings_max=32)) == []
        if resume == "same command":
            assert commit_removals(COMMANDS[name](store), store.write).captures > 0
        else:
            commit_removals(finish_interrupted_removals(store), store.write)
        assert facts(store) == expected[name]
        assert meta.url_to_forget(store) is None


def work(command: str, versions: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many captures are decoded and how many unions are run when many versions are removed."""
    folder.mkdir()
    done = 0

    def count(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            nonlocal done
            done += 1
            return function(*arguments)

        return counted

    with build(folder, versions) as store, monkeypatch.context() as patch:
        patch.setattr(removal, "CAPTURES_PER_REMOVAL", 8)
        patch.setattr(capture_row, "decode", count(capture_row.decode))
        patch.setattr(forest, "union", count(union))
        commit_removals(COMMANDS[command](store), store.write)
    return done


@pytest.mark.parametrize("command", COMMANDS)
def test_the_work_is_proportional_to_what_is_removed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = work(command, 40, tmp_path / "small", monkeypatch)
    large = work(command, 160, tmp_path / "large", monkeypatch)
    assert large < 6 * small  # 16 times as much if it were quadratic


def rows_changed_per_commit(folder: Path, versions: int) -> list[int]:
    """Cancel a sweep that consists of one cluster. Return how many rows each commit before a removal changes."""
    rng = random.Random(5)
    base = words(rng, 120)
    pages = [page(f"https://a.org/{n}", " ".join(variant(rng, base, 2)), NOW + n) for n in range(versions)]
    folder.mkdir()
    commits: list[Removal] = []
    with Store(folder / "state") as store:
        take(store, folder / "a.jsonl", pages, "two", settings())
        assert len(View(store).members(View(store).root(next(View(store).all_document_ids())))) > versions // 2
        commit_removals(start_cancelling(store), store.write, commits.append)
        assert not list(store.scan(Family.EDGES))
        assert list(check(store, postings_max=32)) == []
    return [len(removed.changes) for removed in commits if not removed.captures]


def test_detaching_a_large_cluster_changes_few_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 8)
    monkeypatch.setattr(detachment, "_EDGES_PER_COMMIT", 20)
    monkeypatch.setattr(detachment, "_MEMBERS_PER_COMMIT", 10)
    small = rows_changed_per_commit(tmp_path / "small", 40)
    large = rows_changed_per_commit(tmp_path / "large", 160)
    assert len(large) > 2 * len(small)
    assert max(large) <= 40


def test_the_edges_of_a_document_with_many_are_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with build(tmp_path) as store:
        documents = list(View(store).all_document_ids())
        expected = [(key[:16], key[16:]) for key, _ in store.scan(Family.EDGES)]
        for edges_per_read in (1, 2, 1_000):
            monkeypatch.setattr(detachment, "_EDGES_PER_READ", edges_per_read)
            assert list(detachment.stored_edges(store, documents)) == expected


def test_a_url_with_many_documents_is_read_once_per_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decode, decoded = capture_row.decode, 0

    def counted(row: bytes, value: bytes) -> Capture:
        nonlocal decoded
        decoded += 1
        return decode(row, value)

    with build(tmp_path, 120) as store:
        captures = len(View(store).captures(url_key(URL)))
        monkeypatch.setattr(capture_row, "decode", counted)
        assert commit_removals(forget_url(store, url_key(URL)), store.write).captures == captures
    assert decoded < 8 * captures


def test_progress_counts_the_removed_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "CAPTURES_PER_REMOVAL", 3)
    with build(tmp_path) as store:
        total = len(View(store).captures(url_key(URL)))
        with progress_bars.removal_meter("forget", total, quiet=True) as meter:
            shares: list[float] = []

            def report(removed: Removal) -> None:
                meter.update(removed)
                shares.append(meter.share)

            commit_removals(start_forgetting(store), store.write, report)
    assert shares == sorted(shares)
    assert len(set(shares)) > 3
    assert (meter.count, shares[-1]) == (total, 1.0)
