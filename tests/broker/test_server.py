"""Test queries across workers: every command gives the same answer as on the embedded engine's folder."""

from __future__ import annotations

import json
import shutil
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


class BothEngines(NamedTuple):
    """The same sweeps in the embedded engine's folder and in two workers."""

    collection: Any
    folder: Path
    urls: list[str]


@pytest.fixture
def engines(make_collection: Callable[..., Any], tmp_path: Path) -> BothEngines:
    collection = make_collection(3)
    folder = tmp_path / "embedded"
    for name in SWEEPS:
        collection("publish", SAMPLE / f"{name}.jsonl", "--sweep", name)
        collection.run("ingest", SAMPLE / f"{name}.jsonl", "--sweep", name, "--data-dir", folder)
    urls = collection.serve_all(["a", "b"])
    collection.wait_until_committed(urls[0], len(SWEEPS))
    return BothEngines(collection, folder, urls)


def test_workers_query_each_other_over_ipv6(make_collection: Callable[..., Any]) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6")
    collection = make_collection(3)
    for name in SWEEPS:
        collection("publish", SAMPLE / f"{name}.jsonl", "--sweep", name)
    urls = collection.serve_all(["a", "b"], host="::1")
    collection.wait_until_committed(urls[0], len(SWEEPS))
    first, second = (collection.run_until_success("clusters", "--json", "--server", url) for url in urls)
    assert first == second
    assert len(first.splitlines()) > 1


def test_every_query_gives_the_same_answer(engines: BothEngines) -> None:
    collection = engines.collection
    urls = sorted({json.loads(line)["url"] for name in SWEEPS for line in (SAMPLE / f"{name}.jsonl").open()})
    first = [json.loads(line)["url"] for line in (SAMPLE / "2023-03.jsonl").open()]
    commands: list[list[str]] = [["clusters", "--min-size", "1"], ["clusters", "--threshold", "0.9", "--containment"]]
    commands += [["captures", urls[0]], ["cluster", first[0]], ["similar", first[0]], ["find", *first[:6]]]
    commands += [["clusters", "--min-urls", "1"], ["find", "--missing"]]
    tracked = f"{first[0]}?utm_source=news&fbclid=1"
    commands += [[name, tracked] for name in ("captures", "cluster", "similar", "find")]
    commands = [[*command, "--json"] for command in commands]
    commands += [["duplicates", "--format", name, *others] for name in ("csv", "jsonl") for others in ([], ["--all"])]
    commands += [["find", "--missing"], ["find", tracked]]
    for i, command in enumerate(commands):
        expected = collection.run(*command, "--data-dir", engines.folder)
        actual = collection.run(*command, "--server", engines.urls[i % 2])
        assert expected == actual, command
        assert expected


def test_forgetting_and_cancelling_reach_all_partitions(engines: BothEngines) -> None:
    collection = engines.collection
    url = json.loads((SAMPLE / "2025-09.jsonl").open().readline())["url"]
    for command in (["forget", url], ["sweep", "cancel", "2024-05"]):
        expected = collection.run(*command, "--data-dir", engines.folder)
        assert collection.run(*command, "--server", engines.urls[1]) == expected
        query = ["clusters", "--min-size", "1", "--json"]
        assert collection.run(*query, "--server", engines.urls[0]) == collection.run(
            *query, "--data-dir", engines.folder
        )
    collection.run("captures", url, "--server", engines.urls[0], code=1)
    assert "2024-05" not in collection.run("sweep", "list", "--server", engines.urls[0])


def test_cancelling_a_sweep_also_drops_its_pages_in_flight(
    make_collection: Callable[..., Any], tmp_path: Path
) -> None:
    collection = make_collection(2, take_pages=32)
    (url,) = collection.serve_all(["a"])
    spam = tmp_path / "spam.jsonl"
    with spam.open("w") as out:
        for at in range(2_000):
            words = " ".join(f"word{at // 4}x{n}" for n in range(200))
            out.write(json.dumps({"url": f"https://spam{at % 50}.example/{at}", "text": f"{words} {at}"}) + "\n")
    collection("publish", spam, "--sweep", "spam", "--keep-open")
    deadline = time.monotonic() + 60
    while metric_total(url, "lostfound_captures_total") < 100:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    collection.run("sweep", "cancel", "spam", "--server", url)
    while metric_total(url, "lostfound_waiting_messages"):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    collection.run("clusters", "--min-size", "1", "--server", url, code=1)
    assert collection.run("sweep", "list", "--json", "--server", url) == ""


def metric_total(url: str, name: str) -> float:
    """Return the sum of a metric of a worker over all labels."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def test_the_error_about_a_silent_worker_names_it(engines: BothEngines) -> None:
    collection = engines.collection
    silent = collection.running[-1]
    silent.send_signal(signal.SIGSTOP)
    try:
        error = collection.run("clusters", "--server", engines.urls[0], code=4)
        assert engines.urls[1] in error
    finally:
        silent.send_signal(signal.SIGCONT)


def test_a_worker_serves_metrics_and_liveness(engines: BothEngines) -> None:
    with urllib.request.urlopen(f"{engines.urls[0]}/metrics") as answer:
        text = answer.read().decode()
    assert 'lostfound_partitions{role="active"}' in text
    assert "lostfound_ready 1.0" in text
    assert "lostfound_waiting_messages{" in text
    with urllib.request.urlopen(f"{engines.urls[0]}/livez") as answer:
        assert answer.status == 200


def test_a_worker_without_partitions_answers_for_the_collection(make_collection: Callable[..., Any]) -> None:
    collection = make_collection(1)
    collection("publish", SAMPLE / "2023-03.jsonl", "--sweep", "2023-03")
    urls = collection.serve_all(["a", "b", "c"])
    query = ["clusters", "--min-size", "1", "--json", "--server"]
    deadline = time.monotonic() + 60
    while '"state":"committed"' not in (
        output := collection.run_until_success("sweep", "list", "--json", "--server", urls[2])
    ):
        assert time.monotonic() < deadline, output
        time.sleep(0.3)
    answers = [collection.run_until_success(*query, url) for url in urls]
    assert answers[0]
    assert answers == answers[:1] * 3


def test_an_open_sweep_is_committed_by_command(make_collection: Callable[..., Any]) -> None:
    collection = make_collection(2)
    collection("publish", SAMPLE / "2023-03.jsonl", "--sweep", "2023-03", "--keep-open")
    url = collection.serve("a")
    assert '"state":"open"' in collection.run("sweep", "list", "--json", "--server", url)
    assert "already" in collection.run("sweep", "open", "2023-03", "--server", url, code=2)
    assert "is not a valid sweep name" in collection.run("sweep", "open", "a\nb", "--server", url, code=2)
    collection.run("sweep", "commit", "2023-03", "--server", url)
    deadline = time.monotonic() + 60
    while '"state":"committed"' not in (output := collection.run("sweep", "list", "--json", "--server", url)):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert json.loads(output)["captures"] == sum(1 for _ in (SAMPLE / "2023-03.jsonl").open())
    assert "cannot be committed" in collection.run("sweep", "commit", "2023-03", "--server", url, code=2)
    collection("publish", SAMPLE / "2023-03.jsonl", "--sweep", "2023-03")


def test_decisions_give_the_same_answers(engines: BothEngines, tmp_path: Path) -> None:
    """Decisions reach the owners of their URLs, and survive a later sweep and the loss of a worker's folder."""
    collection = engines.collection
    site = "https://www.windvane.example"
    moved, gone, alive, never = (
        f"{site}/{page}" for page in ("guide/alerts.html", "radio/packet.html", "faq.html", "x")
    )
    decisions = tmp_path / "decisions.jsonl"
    decided = [(moved, alive), (gone, None), (alive, gone), (never, moved)]
    lines = [{"old": old, "new": new, "decided_at": "2026-01-02T03:04:05Z"} for old, new in decided]
    decisions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    servers: list[list[object]] = [["--server", url] for url in engines.urls]
    sources: list[list[object]] = [["--data-dir", engines.folder], *servers]
    commands: list[list[object]] = [["moved", "--from-file", decisions], ["decisions", "--remove", alive]]
    for command in commands:
        assert collection.run(*command, *sources[0]) == collection.run(*command, *sources[1]), command
    # A decision that is older than the stored one changes nothing on either engine.
    decisions.write_text(json.dumps({"old": moved, "decided_at": "2025-01-01T00:00:00Z"}))
    assert "recorded 0 decisions" in collection.run("gone", "--from-file", decisions, *sources[0])
    assert "recorded 0 decisions" in collection.run("gone", "--from-file", decisions, *sources[2])
    queries = [["decisions", "--json", "--with-rank"], ["find", moved, gone, alive, never, "--json"]]
    queries.append(["find", "--missing", "--redirects", "csv"])
    answers = [[collection.run(*query, *source) for query in queries] for source in sources]
    assert answers[0] == answers[1] == answers[2]
    statuses = [json.loads(line)["status"] for line in answers[0][1].splitlines()]
    assert statuses == ["moved", "gone", "alive", "moved"]
    assert f"{never},{alive},1.000" in answers[0][2]
    collection.stop()
    shutil.rmtree(collection.folder / "a")
    url = collection.serve("a")
    assert [collection.run_until_success(*query, "--server", url) for query in queries] == answers[0]
