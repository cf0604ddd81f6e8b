"""Queries across workers: each command says the same of workers on Kafka as of the embedded engine's folder."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "streams" / "demo" / "sample"
SWEEPS = ("2023-03", "2024-05", "2025-09")


class Both(NamedTuple):
    """The same sweeps in a folder, and spread over two workers."""

    made: Any
    folder: Path
    urls: list[str]


@pytest.fixture
def both(collection: Callable[..., Any], tmp_path: Path) -> Both:
    made = collection(3)
    folder = tmp_path / "embedded"
    for name in SWEEPS:
        made("publish", SAMPLE / f"{name}.jsonl", "--sweep", name)
        made.ask("ingest", SAMPLE / f"{name}.jsonl", "--sweep", name, "--data-dir", folder)
    urls = [made.serve("a"), made.serve("b")]
    settle(made, urls)
    return Both(made, folder, urls)


def settle(made: Any, urls: list[str]) -> None:
    """Wait until both workers are ready and every sweep is committed."""
    until = time.monotonic() + 90
    while True:
        said = ""
        try:
            said = made.ask("sweep", "list", "--json", "--server", urls[0])
            rows = [json.loads(line) for line in said.splitlines()]
        except AssertionError as error:
            rows, said = [], str(error)  # partitions are changing hands
        assert time.monotonic() < until, said
        if len(rows) == len(SWEEPS) and all(row["state"] == "committed" for row in rows):
            break
        time.sleep(0.3)


def test_workers_on_addresses_of_ipv6_reach_one_another(collection: Callable[..., Any]) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    made = collection(3)
    for name in SWEEPS:
        made("publish", SAMPLE / f"{name}.jsonl", "--sweep", name)
    urls = made.serve_all(["a", "b"], host="::1")
    settle(made, urls)
    first, second = (made.ask_settled("clusters", "--json", "--server", url) for url in urls)
    assert first == second
    assert len(first.splitlines()) > 1


def test_every_query_says_the_same(both: Both) -> None:
    made = both.made
    urls = sorted({json.loads(line)["url"] for name in SWEEPS for line in (SAMPLE / f"{name}.jsonl").open()})
    first = [json.loads(line)["url"] for line in (SAMPLE / "2023-03.jsonl").open()]
    commands: list[list[str]] = [["clusters", "--min-size", "1"], ["clusters", "--threshold", "0.9", "--containment"]]
    commands += [["captures", urls[0]], ["cluster", first[0]], ["similar", first[0]], ["find", *first[:6]]]
    for i, command in enumerate(commands):
        here = made.ask(*command, "--json", "--data-dir", both.folder)
        there = made.ask(*command, "--json", "--server", both.urls[i % 2])
        assert here == there, command
        assert here


def test_forgetting_and_cancelling_reach_all_partitions(both: Both) -> None:
    made = both.made
    url = json.loads((SAMPLE / "2025-09.jsonl").open().readline())["url"]
    for command in (["forget", url], ["sweep", "cancel", "2024-05"]):
        here = made.ask(*command, "--data-dir", both.folder)
        assert made.ask(*command, "--server", both.urls[1]) == here
        asked = ["clusters", "--min-size", "1", "--json"]
        assert made.ask(*asked, "--server", both.urls[0]) == made.ask(*asked, "--data-dir", both.folder)
    made.ask("captures", url, "--server", both.urls[0], code=1)
    assert "2024-05" not in made.ask("sweep", "list", "--server", both.urls[0])


def test_a_sweep_cancelled_while_its_pages_are_under_way_leaves_nothing(
    collection: Callable[..., Any], tmp_path: Path
) -> None:
    made = collection(2, take_pages=32)
    (url,) = made.serve_all(["a"])
    spam = tmp_path / "spam.jsonl"
    with spam.open("w") as out:
        for at in range(2_000):
            words = " ".join(f"word{at // 4}x{n}" for n in range(200))
            out.write(json.dumps({"url": f"https://spam{at % 50}.example/{at}", "text": f"{words} {at}"}) + "\n")
    made("publish", spam, "--sweep", "spam", "--keep-open")
    until = time.monotonic() + 60
    while counted(url, "lostfound_captures_total") < 100:
        assert time.monotonic() < until
        time.sleep(0.1)
    made.ask("sweep", "cancel", "spam", "--server", url)
    while counted(url, "lostfound_waiting_messages"):
        assert time.monotonic() < until
        time.sleep(0.3)
    made.ask("clusters", "--min-size", "1", "--server", url, code=1)
    assert made.ask("sweep", "list", "--json", "--server", url) == ""


def counted(url: str, name: str) -> float:
    """A metric of a worker, all its labels together."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_a_missing_part_is_an_error_that_names_the_worker(both: Both) -> None:
    made = both.made
    silent = made.running[-1]
    silent.send_signal(signal.SIGSTOP)
    try:
        said = made.ask("clusters", "--server", both.urls[0], code=4)
        assert both.urls[1] in said
    finally:
        silent.send_signal(signal.SIGCONT)


def test_a_worker_says_how_it_is(both: Both) -> None:
    with urllib.request.urlopen(f"{both.urls[0]}/metrics") as answer:
        text = answer.read().decode()
    assert 'lostfound_partitions{role="active"}' in text
    assert "lostfound_ready 1.0" in text
    assert "lostfound_waiting_messages{" in text
    with urllib.request.urlopen(f"{both.urls[0]}/livez") as answer:
        assert answer.status == 200


def test_a_worker_without_partitions_answers_for_all(collection: Callable[..., Any]) -> None:
    made = collection(1)
    made("publish", SAMPLE / "2023-03.jsonl", "--sweep", "2023-03")
    urls = made.serve_all(["a", "b", "c"])
    asked = ["clusters", "--min-size", "1", "--json", "--server"]
    until = time.monotonic() + 60
    while '"state":"committed"' not in (said := made.ask_settled("sweep", "list", "--json", "--server", urls[2])):
        assert time.monotonic() < until, said
        time.sleep(0.3)
    answers = [made.ask_settled(*asked, url) for url in urls]
    assert answers[0]
    assert answers == answers[:1] * 3


def test_a_sweep_left_open_is_committed_on_demand(collection: Callable[..., Any]) -> None:
    made = collection(2)
    made("publish", SAMPLE / "2023-03.jsonl", "--sweep", "2023-03", "--keep-open")
    url = made.serve("a")
    assert '"state":"open"' in made.ask("sweep", "list", "--json", "--server", url)
    assert "already" in made.ask("sweep", "open", "2023-03", "--server", url, code=2)
    assert "is not a valid sweep name" in made.ask("sweep", "open", "a\nb", "--server", url, code=2)
    made.ask("sweep", "commit", "2023-03", "--server", url)
    until = time.monotonic() + 60
    while '"state":"committed"' not in (said := made.ask("sweep", "list", "--json", "--server", url)):
        assert time.monotonic() < until
        time.sleep(0.3)
    assert json.loads(said)["captures"] == sum(1 for _ in (SAMPLE / "2023-03.jsonl").open())
    assert "cannot be committed" in made.ask("sweep", "commit", "2023-03", "--server", url, code=2)
    made("publish", SAMPLE / "2023-03.jsonl", "--sweep", "2023-03")
