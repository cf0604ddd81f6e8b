"""Every command on the sample set: exit codes, what goes where, and the JSON."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state import sweeps
from state.changes import Changes
from state.families import Family
from state.store import Store
from streams.cli import command_clusters
from tests.samples import begin_cancel
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

FAQ, FAQ_MIRROR = f"{SITE}/faq.html", f"{SITE}/mirror/faq.html"


def test_ingest_says_what_it_did(lostfound: Lostfound) -> None:
    done = lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    assert done.code == 0
    assert "15 pages" in done.out
    assert "committed" in done.out
    assert "near-duplicate" in done.out


def test_ingest_again_changes_nothing_and_says_so(lostfound: Lostfound) -> None:
    lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    done = lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    assert done.code == 0
    assert "nothing to do" in done.out
    assert len(lostfound("state", "dump", "captures").rows) == 15


def test_ingest_for_machines(lostfound: Lostfound) -> None:
    (row,) = lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first", "--json").rows
    assert row["sweep"] == "first"
    assert row["status"] == "ingested"
    assert row["committed"] is True
    assert (row["pages"], row["new"], row["unchanged"], row["rejected"]) == (15, 15, 0, {})


def test_a_committed_sweep_takes_no_other_input(lostfound: Lostfound) -> None:
    lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first")
    done = lostfound("ingest", SAMPLE / "2024-05.jsonl", "--sweep", "first")
    assert done.code == 2
    assert "is committed" in done.err


def test_a_sweep_kept_open_takes_more(lostfound: Lostfound) -> None:
    lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first", "--keep-open")
    assert lostfound("sweep", "list", "--json").rows[0]["state"] == "open"
    assert lostfound("ingest", SAMPLE / "2024-05.jsonl", "--sweep", "first").code == 0
    (row,) = lostfound("sweep", "list", "--json").rows
    assert (row["state"], row["captures"]) == ("committed", 31)


def test_ingest_of_what_is_not_there(lostfound: Lostfound, tmp_path: Path) -> None:
    done = lostfound("ingest", tmp_path / "nothing.warc", "--sweep", "first")
    assert done.code == 2
    assert "nothing.warc" in done.err
    assert "Traceback" not in done.err


@pytest.fixture
def with_a_bad_line(tmp_path: Path) -> Path:
    lines = (SAMPLE / "2023-03.jsonl").read_text().splitlines()
    lines.insert(3, "{this is no JSON")
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    return tmp_path / "pages.jsonl"


def test_a_bad_record_goes_to_the_dead_letters(lostfound: Lostfound, with_a_bad_line: Path, tmp_path: Path) -> None:
    done = lostfound("ingest", with_a_bad_line, "--sweep", "first")
    assert done.code == 0
    assert "dead-letters.jsonl" in done.out
    (letter,) = map(json.loads, (tmp_path / "data" / "dead-letters.jsonl").read_text().splitlines())
    assert letter["sweep"] == "first"
    assert letter["offset"] == 3


def test_a_bad_record_may_stop_it_all(lostfound: Lostfound, with_a_bad_line: Path) -> None:
    done = lostfound("ingest", with_a_bad_line, "--sweep", "first", "--bad-records", "fail")
    assert done.code == 3
    assert "pages.jsonl" in done.err


def test_sweeps_open_commit_and_cancel(lostfound: Lostfound) -> None:
    assert lostfound("sweep", "open", "first").code == 0
    assert lostfound("sweep", "open", "first").code == 2
    assert lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "first", "--keep-open").code == 0
    assert "15 captures" in lostfound("sweep", "commit", "first").out
    assert lostfound("sweep", "cancel", "first").code == 0
    assert lostfound("sweep", "list", "--json").rows == []
    assert lostfound("clusters").code == 1
    assert lostfound("captures", FAQ).code == 1
    assert lostfound("sweep", "commit", "second").code == 2


def test_a_name_whose_cancellation_was_cut_short_is_free(sampled: Lostfound, tmp_path: Path) -> None:
    with Store(tmp_path / "data") as store:
        held = sweeps.named(store, "2025-09")
        assert held
        begin_cancel(store, held)
    assert sampled("sweep", "open", "2025-09").code == 0
    assert [row["state"] for row in sampled("sweep", "list", "--json").rows] == ["committed", "committed", "open"]


@pytest.mark.parametrize(
    "command",
    [("sweep", "open", "x"), ("sweep", "commit", "2025-09"), ("sweep", "cancel", "2025-09"), ("forget", FAQ)],
)
def test_nothing_is_written_to_a_state_of_a_newer_format(
    sampled: Lostfound, tmp_path: Path, command: tuple[str, ...]
) -> None:
    with Store(tmp_path / "data") as store:
        changes = Changes()
        changes.put(Family.META, b"format", b"99")
        store.write(changes)
    done = sampled(*command)
    assert done.code == 4
    assert "format 99" in done.err


def test_sweeps_are_listed_with_their_times(sampled: Lostfound) -> None:
    rows = sampled("sweep", "list", "--json").rows
    assert [row["sweep"] for row in rows] == list(SWEEPS)
    assert all(row["committed"] >= row["opened"] > "2026" for row in rows)
    assert all(name in sampled("sweep", "list").out for name in SWEEPS)


def test_a_query_without_a_state_says_how_to_get_one(lostfound: Lostfound) -> None:
    for arguments in (("clusters",), ("captures", FAQ), ("sweep", "list"), ("state", "check"), ("find", FAQ)):
        done = lostfound(*arguments)
        assert done.code == 4
        assert "no state in" in done.err


def test_clusters_are_listed_biggest_first(sampled: Lostfound) -> None:
    rows = sampled("clusters", "--json").rows
    sizes = [max(len(row["documents"]), len(row["urls"])) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert any({FAQ, FAQ_MIRROR} <= set(row["urls"]) for row in rows)
    assert len(sampled("clusters", "--json", "--limit", "2").rows) == 2
    assert len(sampled("clusters", "--json", "--min-size", "1").rows) > len(rows)
    assert "Questions" in sampled("clusters").out


def test_that_there_are_more_clusters_is_said_where_there_are(
    sampled: Lostfound, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(sampled("clusters", "--json").rows)
    for most, limit, more in ((count, (), False), (count - 1, (), True), (count - 1, ("--limit", count - 1), False)):
        monkeypatch.setattr(command_clusters, "LISTED_MAX", most)
        assert (f"the biggest {most} are shown" in sampled("clusters", *limit).err) is more


def test_no_cluster_so_big(sampled: Lostfound) -> None:
    done = sampled("clusters", "--min-size", "50")
    assert (done.code, done.out) == (1, "")


def test_a_cluster_shows_how_alike_its_members_are_to_the_one_asked(sampled: Lostfound) -> None:
    (row,) = sampled("cluster", FAQ, "--json").rows
    assert {FAQ, FAQ_MIRROR} <= set(row["urls"])
    assert row["asked"] in row["documents"]
    first, *others = row["members"]
    assert (first["document"], first["resemblance"]) == (row["asked"], 1.0)
    assert others
    assert all(0.6 < member["resemblance"] < 1 for member in others)
    assert sampled("cluster", row["asked"][:12], "--json").rows == [row]
    assert FAQ_MIRROR in sampled("cluster", FAQ).out


def test_a_cluster_by_another_policy(sampled: Lostfound) -> None:
    (usual,) = sampled("cluster", FAQ, "--json").rows
    (strict,) = sampled("cluster", FAQ, "--threshold", "0.99", "--json").rows
    assert len(strict["documents"]) < len(usual["documents"])
    (first,) = sampled("cluster", FAQ, "--sweep", "2024-05", "--json").rows
    assert set(first["urls"]) == {FAQ, FAQ_MIRROR}
    assert len(sampled("clusters", "--threshold", "0.99", "--json").rows) < len(sampled("clusters", "--json").rows)


def test_containment_adds_pairs_above_the_threshold_of_the_ingest_and_else_says_that_it_does_not(
    lostfound: Lostfound, tmp_path: Path
) -> None:
    text = [f"word{n}" for n in range(100)]
    pages = {"short": text, "longer": [*text, *(f"more{n}" for n in range(25))]}
    lines = [{"url": f"{SITE}/{n}", "fetch_time": 5_000, "text": " ".join(each)} for n, each in pages.items()]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert lostfound("ingest", tmp_path / "pages.jsonl", "--sweep", "one").code == 0
    assert lostfound("clusters", "--threshold", "0.9").code == 1
    found = lostfound("clusters", "--threshold", "0.9", "--containment", "--json")
    assert ([row["url_count"] for row in found.rows], found.err) == ([2], "")
    for command in (("clusters",), ("cluster", f"{SITE}/short")):
        usual, told = lostfound(*command, "--json"), lostfound(*command, "--containment", "--json")
        assert usual.out == told.out
        assert (usual.err, told.err.split(":")[0]) == ("", "--containment adds nothing to a threshold of 0.7")


def test_a_threshold_is_held_against_that_of_the_ingest(lostfound: Lostfound, tmp_path: Path) -> None:
    low, high = tmp_path / "low.toml", tmp_path / "high.toml"
    low.write_text("[policy]\nthreshold = 0.5\n")
    high.write_text("[policy]\nthreshold = 0.9\n")
    for n, config in enumerate((low, high, low)):
        asked = ("ingest", SAMPLE / f"{SWEEPS[n]}.jsonl", "--sweep", SWEEPS[n], "--config", config)
        assert ("different thresholds" in lostfound(*asked).err) is (n > 0)
        least = (0.5, 0.9, 0.9)[n]
        for asking in (low, high):
            assert lostfound("clusters", "--threshold", least, "--config", asking).code < 2
            refused = lostfound("clusters", "--threshold", least - 0.1, "--config", asking)
            assert (refused.code, f"below the {least} of the ingest" in refused.err) == (2, True)


def test_what_the_kept_edges_cannot_tell_is_refused(sampled: Lostfound) -> None:
    done = sampled("clusters", "--threshold", "0.2")
    assert done.code == 2
    assert "below" in done.err
    assert sampled("clusters", "--sweep", "2030").code == 2
    assert sampled("cluster", f"{SITE}/radio/packet.html", "--sweep", "2025-09").code == 1


def test_forget_removes_a_url(sampled: Lostfound) -> None:
    assert "forgot 3 captures and 2 documents; 2 others were joined anew" in sampled("forget", FAQ_MIRROR).out
    assert sampled("captures", FAQ_MIRROR).code == 1
    assert sampled("captures", FAQ).code == 0
    assert sampled("state", "check").code == 0
    assert sampled("forget", FAQ_MIRROR).code == 1


def test_forget_removes_a_document(sampled: Lostfound) -> None:
    (row,) = sampled("cluster", FAQ, "--json").rows
    assert sampled("forget", row["asked"], "--json").rows[0]["documents"] == 1
    assert sampled("cluster", row["asked"]).code == 1
    assert sampled("state", "check").code == 0


def test_similar_to_a_stored_url(sampled: Lostfound) -> None:
    rows = sampled("similar", f"{SITE}/manual/logging/", "--json").rows
    assert rows[0]["resemblance"] == 1.0
    alerts = next(row for row in rows if row["urls"] == [f"{SITE}/guide/alerts.html"])
    assert alerts["contained"] > 0.8 > alerts["resemblance"]
    assert alerts["first_seen"].startswith("20")
    assert "±" in sampled("similar", f"{SITE}/manual/logging/").out


def test_similar_to_a_file_and_to_stdin(sampled: Lostfound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = json.loads((SAMPLE / "2023-03.jsonl").read_text().splitlines()[1])
    (tmp_path / "page.html").write_text(page["html"])
    (row, *_) = sampled("similar", tmp_path / "page.html", "--json").rows
    assert (row["urls"], row["resemblance"]) == ([page["url"]], 1.0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(page["html"].encode())))
    assert sampled("similar", "-", "--json").rows[0] == row


def test_similar_finds_nothing(sampled: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("entirely other words that nobody ever wrote on a page about the weather")
    done = sampled("similar", tmp_path / "other.txt")
    assert (done.code, done.out) == (1, "")


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"\x89PNG\r\n\x1a\n" + bytes(64)], ids=["empty", "blank", "picture"]
)
def test_similar_needs_words(sampled: Lostfound, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "no-words").write_bytes(content)
    done = sampled("similar", tmp_path / "no-words")
    assert done.code == 2
    assert "Traceback" not in done.err


def test_similar_to_what_is_not_there(sampled: Lostfound) -> None:
    assert sampled("similar", "nowhere.html").code == 2
    assert sampled("similar", f"{SITE}/never").code == 1


def test_captures_show_versions_and_redirects(sampled: Lostfound) -> None:
    rows = sampled("captures", f"{SITE}/install.html", "--json").rows
    assert [row["sweep"] for row in rows] == list(SWEEPS)
    assert rows[0]["resemblance"] is None
    assert 0.7 < rows[1]["resemblance"] < 1
    assert rows[2]["resemblance"] == 1.0
    assert "unchanged" in sampled("captures", f"{SITE}/install.html").out
    (redirect, _) = sampled("captures", f"{SITE}/setup.html", "--json").rows
    assert (redirect["status"], redirect["redirect"]) == (301, f"{SITE}/install.html")


def test_a_url_that_is_none(sampled: Lostfound) -> None:
    assert sampled("captures", "ftp://a.example/").code == 2


def test_state_check_names_what_is_broken(sampled: Lostfound, tmp_path: Path) -> None:
    from state.changes import Changes
    from state.families import Family
    from state.store import Store

    assert sampled("state", "check").err == "the state is sound\n"
    with Store(tmp_path / "data") as store:
        changes = Changes()
        changes.put(Family.PARENTS, bytes(16), bytes([1] * 16))
        store.write(changes)
    done = sampled("state", "check")
    assert done.code == 1
    assert "parents" in done.out
    assert all(row["family"] for row in sampled("state", "check", "--json").rows)


def test_state_stats(sampled: Lostfound) -> None:
    (row,) = sampled("state", "stats", "--json").rows
    assert row["sweeps"]["committed"] == 3
    assert row["counters"]["pages"] == 48
    assert "column family" in sampled("state", "stats").out


def test_state_backup_can_be_asked(sampled: Lostfound, tmp_path: Path) -> None:
    assert sampled("state", "backup", tmp_path / "copy").code == 0
    there = sampled("clusters", "--json").out
    shutil.rmtree(tmp_path / "data")
    assert sampled("--data-dir", tmp_path / "copy", "clusters", "--json").out == there
    assert sampled("--data-dir", tmp_path / "copy", "state", "backup", tmp_path / "copy").code == 2


def test_state_dump(sampled: Lostfound) -> None:
    rows = sampled("state", "dump").rows
    assert {"captures", "documents", "edges", "sweeps"} <= {row["family"] for row in rows}
    assert len(sampled("state", "dump", "documents", "--limit", "3").rows) == 3
    key = sampled("state", "dump", "documents", "--limit", "1").rows[0]["document"]
    assert len(sampled("state", "dump", "documents", "--prefix", key).rows) == 1
    assert sampled("state", "dump", "nothing").code == 2
    assert sampled("state", "dump", "bands", "--prefix", "xyz").code == 2


def test_state_dump_writes_each_row_as_it_is_read(sampled: Lostfound, monkeypatch: pytest.MonkeyPatch) -> None:
    from streams.cli import command_state

    read: list[int] = []
    written: list[int] = []
    rows = command_state._rows

    def counted(*arguments: Any) -> Iterator[dict[str, Any]]:
        for row in rows(*arguments):
            read.append(1)
            yield row

    monkeypatch.setattr(command_state, "_rows", counted)
    monkeypatch.setattr(command_state, "write_json", lambda *_: written.append(len(read)))
    assert sampled("state", "dump", "documents").code == 0
    assert written == list(range(1, len(read) + 1))


def test_state_hot_lists_full_buckets(lostfound: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "small.toml"
    settings.write_text("[limits]\nbucket_postings_max = 2\n")
    for sweep in SWEEPS:
        lostfound("ingest", SAMPLE / f"{sweep}.jsonl", "--sweep", sweep, "--config", settings)
    done = lostfound("state", "hot", "--json", "--config", settings)
    assert done.code == 0
    assert {row["kind"] for row in done.rows} == {"bucket"}
    assert "bucket" in lostfound("state", "hot", "--config", settings).out
    assert lostfound("state", "hot").code == 1


def test_another_scheme_is_refused_by_name(sampled: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "other.toml"
    settings.write_text("[scheme]\nshingle_words = 5\n")
    done = sampled("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "again", "--config", settings)
    assert done.code == 4
    assert "shingle_words 4 there, 5 here" in done.err


def test_a_wrong_setting_is_named(lostfound: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "wrong.toml"
    settings.write_text("[policy]\nthreshold = 7\n")
    done = lostfound("clusters", "--config", settings)
    assert done.code == 2
    assert "threshold" in done.err


def test_two_writers_are_one_too_many(sampled: Lostfound, tmp_path: Path) -> None:
    from state.store import Store

    with Store(tmp_path / "data"):
        done = sampled("sweep", "open", "another")
        assert done.code == 4
        assert "open for writing" in done.err
        assert sampled("clusters").code == 0  # readers are welcome


@pytest.mark.parametrize(
    "command", [("forget", "https://a.example/"), ("sweep", "commit", "x"), ("sweep", "cancel", "x"), ("clusters",)]
)
def test_a_mistyped_folder_stays_unmade(lostfound: Lostfound, tmp_path: Path, command: tuple[str, ...]) -> None:
    done = lostfound("--data-dir", tmp_path / "mistyped", *command)
    assert done.code == 4
    assert "no state in" in done.err
    assert not (tmp_path / "mistyped").exists()


def test_a_mistyped_file_makes_no_state(lostfound: Lostfound, tmp_path: Path) -> None:
    done = lostfound("ingest", tmp_path / "mistyped.warc", "--sweep", "x", "--data-dir", tmp_path / "new")
    assert done.code == 2
    assert "mistyped.warc" in done.err
    assert not (tmp_path / "new").exists()
    (tmp_path / "empty").mkdir()
    for path, name in ((tmp_path / "empty", "x"), (SAMPLE, "")):
        assert lostfound("ingest", path, "--sweep", name, "--data-dir", tmp_path / "new").code == 2
        assert not (tmp_path / "new").exists()


def test_a_file_for_a_folder_is_told(sampled: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "below"
    assert sampled("ingest", SAMPLE / "2023-03.jsonl", "--sweep", "x", "--data-dir", below).code == 4
    assert sampled("state", "backup", below).code == 2


def test_damaged_files_are_told(sampled: Lostfound, tmp_path: Path) -> None:
    for file in (tmp_path / "data").glob("*.sst"):
        file.write_bytes(file.read_bytes()[:20] + b"garbage" + file.read_bytes()[27:])
    done = sampled("find", "--missing")
    assert done.code == 4
    assert "damaged" in done.err or "does not open" in done.err


def test_brackets_in_pages_are_no_markup(lostfound: Lostfound, tmp_path: Path) -> None:
    lines = [
        {"url": "https://a.example/x", "fetch_time": 5_000, "title": "[/b] :bug:", "text": "some words " * 20},
        {
            "url": "https://a.example/y",
            "fetch_time": 5_000,
            "status": 301,
            "redirect": "https://a.example/q?[/b]=:x:",
        },
    ]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert lostfound("ingest", tmp_path / "pages.jsonl", "--sweep", "[/sweep]").code == 0
    assert "[/sweep]" in lostfound("sweep", "list").out
    assert "q?[/b]=:x:" in lostfound("captures", "https://a.example/y").out
    assert "[/b] :bug:" in lostfound("clusters", "--min-size", "1").out
    assert "https://a.example/x" in lostfound("find", "https://a.example/x").out


COMMAND = [sys.executable, "-c", "from streams.cli import main; main()"]
ROOT = Path(__file__).parents[3]


def test_a_full_disk_under_the_state_is_told(tmp_path: Path) -> None:
    lines = [{"url": f"https://a.example/{n}", "text": " ".join(map(str, range(n, n + 999)))} for n in range(200)]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["ingest", str(tmp_path / "pages.jsonl"), "--sweep", "x", "--data-dir", str(tmp_path / "data")]
    limited = ["bash", "-c", 'ulimit -f 100; exec "$@"', "-", *COMMAND, *arguments]
    done = subprocess.run(limited, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 4, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("closed", "arguments"),
    [(">&-", "state stats"), ("2>&-", "state stats"), ("<&-", "similar -"), ("<&-", "find --from-file -"),
     ("<&-", "ingest - --sweep x"), (">&- 2>&- <&-", "sweep open y")],
)  # fmt: skip
def test_closed_streams_hold_nothing(sampled: Lostfound, tmp_path: Path, closed: str, arguments: str) -> None:
    line = [
        "bash",
        "-c",
        f'exec "$@" {closed}',
        "-",
        *COMMAND,
        *arguments.split(),
        "--data-dir",
        str(tmp_path / "data"),
    ]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode in {0, 1, 2}
    assert "Traceback" not in done.stdout + done.stderr
    assert sampled("state", "check").code == 0


def test_a_full_disk_under_stdout_is_told() -> None:
    for arguments in (["--help"], ["sweep", "--help"]):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
            )
        assert done.returncode == 2
        assert done.stderr.startswith("lostfound: ")
        assert "No space left on device" in done.stderr
