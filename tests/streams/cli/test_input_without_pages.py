"""Commands refuse an input without pages: exit code 2, and the state is as before."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest

from state.store import Store
from tests.samples import jsonl, missing, page, redirect
from tests.streams.cli.conftest import SAMPLE, Lostfound
from tests.streams.engine.ingest_samples import everything

WARC = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: ftp://a.org/\r\nContent-Length: 2\r\n\r\nok\r\n\r\n"
INPUTS = {
    "passwd": b"root:x:0:0:root:/root:/bin/bash\n",
    "error.warc.gz": b"<html><body>404 Not Found</body></html>",
    "index.cdx": b" CDX N b a m s k r M S V g\ncom,example)/ 2020 http://example.com/ text/html 200 A - - 1 2 f\n",
    "table.csv": b"name,size\nx,1\n",
    "empty.jsonl": b"",
    "rejected.warc": WARC,
    "rejected.jsonl": b'{"url": 7}\n{"url": "nowhere", "text": "x"}\n{"url": "neither", "text": "x"}\n',
    "scripts.jsonl": b"".join(
        b'{"url": "https://a.org/%d.js", "mime": "Text/JavaScript; charset=utf-8", "body": "var x = 1"}\n' % number
        for number in range(3)
    ),
    "many.jsonl.gz": gzip.compress(b'{"url": "nowhere"}\n' * 5_000),
}


@pytest.fixture(params=INPUTS)
def useless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path: Path = tmp_path / request.param
    path.write_bytes(INPUTS[request.param])
    return path


def test_a_state_that_did_not_exist_is_not_created(lostfound: Lostfound, tmp_path: Path, useless: Path) -> None:
    result = lostfound("ingest", useless, "--sweep", "first")
    assert result.code == 2
    assert f"no page found in {useless}: read " in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("sweep", ["new", "open"])
@pytest.mark.parametrize("options", [[], ["--keep-open"]])
def test_a_state_stays_as_it_was(
    lostfound: Lostfound, tmp_path: Path, useless: Path, sweep: str, options: list[str]
) -> None:
    jsonl(tmp_path / "a.jsonl", [page("https://a.org/", "some words"), {"url": "nowhere"}])
    assert lostfound("ingest", tmp_path / "a.jsonl", "--sweep", "open", "--keep-open").code == 0
    letters = (tmp_path / "data" / "dead-letters.jsonl").read_bytes()
    with Store(tmp_path / "data", writable=False) as store:
        before = everything(store)
    assert lostfound("ingest", useless, "--sweep", sweep, *options).code == 2
    with Store(tmp_path / "data", writable=False) as store:
        assert everything(store) == before
    assert (tmp_path / "data" / "dead-letters.jsonl").read_bytes() == letters
    assert lostfound("ingest", SAMPLE / "2023-03.jsonl", "--sweep", sweep).code == 0


def test_the_message_has_the_most_frequent_reason(lostfound: Lostfound, tmp_path: Path) -> None:
    path = tmp_path / "rejected.jsonl"
    path.write_bytes(INPUTS[path.name])
    error = lostfound("ingest", path, "--sweep", "first").err
    assert "read 3 records and rejected all (2 as bad_url: " in error
    assert "the state is unchanged" in error


def test_the_message_counts_responses_that_are_not_pages(lostfound: Lostfound, tmp_path: Path) -> None:
    path = tmp_path / "scripts.jsonl"
    path.write_bytes(INPUTS[path.name])
    assert (
        "read 3 responses that are not pages (such as text/javascript)\n"
        in lostfound("ingest", path, "--sweep", "a").err
    )
    path.write_bytes(INPUTS[path.name] + INPUTS["rejected.jsonl"])
    error = lostfound("ingest", path, "--sweep", "a").err
    assert (
        "read 3 responses that are not pages (such as text/javascript), and rejected 3 records (2 as bad_url: "
        in error
    )


@pytest.mark.parametrize("postponed_max", [3, 100])
def test_scripts_before_the_first_page_are_stored_with_it(
    lostfound: Lostfound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postponed_max: int
) -> None:
    """The sweep is opened several batches after the first script, or once enough of them were read."""
    monkeypatch.setattr("streams.engine.ingest.POSTPONED_RESPONSES_MAX", postponed_max)
    config = tmp_path / "small.toml"
    config.write_text("[ingest]\nbatch_pages = 2\n")
    scripts = [{"url": f"https://a.org/{n}", "mime": "text/javascript", "body": "var x"} for n in range(5)]
    later = [{**script, "url": script["url"] + "?v=2"} for script in scripts]
    lines = [*scripts, {"url": "nowhere"}, page("https://a.org/", "some words"), *later]
    path = jsonl(tmp_path / "a.jsonl", lines)
    (row,) = lostfound("ingest", path, "--sweep", "first", "--json", "--config", config).rows
    assert (row["pages"], row["new"], row["not_pages"], row["rejected"]) == (12, 1, 10, {"bad_url": 1})
    assert row["redirects_and_errors"] == 0
    assert lostfound("sweep", "list", "--json").rows[0]["captures"] == 11
    assert len(lostfound("captures", "https://a.org/0", "--json").rows) == 1
    counters = lostfound("state", "stats", "--json").rows[0]["counters"]
    assert (counters["pages"], counters["not_pages"], counters["rejected"]) == (11, 10, 1)
    assert lostfound("state", "check").code == 0


def test_a_crawl_of_nothing_but_errors_and_redirects_is_a_crawl(lostfound: Lostfound, tmp_path: Path) -> None:
    lines = [missing("https://a.org/1"), redirect("https://a.org/2", "https://a.org/3")]
    assert lostfound("ingest", jsonl(tmp_path / "a.jsonl", lines), "--sweep", "first").code == 0
    (row,) = lostfound("sweep", "list", "--json").rows
    assert (row["state"], row["captures"]) == ("committed", 2)


def test_pages_after_rejected_records_are_read_and_all_dead_letters_kept(
    lostfound: Lostfound, tmp_path: Path
) -> None:
    """The sweep is opened several batches after the first record."""
    config = tmp_path / "small.toml"
    config.write_text("[ingest]\nbatch_pages = 2\n")
    lines = [{"url": "nowhere"}] * 5 + [page("https://a.org/", "some words")] + [{"url": "nowhere"}] * 3
    path = jsonl(tmp_path / "a.jsonl", lines)
    (row,) = lostfound("ingest", path, "--sweep", "first", "--json", "--config", config).rows
    assert (row["pages"], row["rejected"], row["committed"]) == (9, {"bad_url": 8}, True)
    letters = (tmp_path / "data" / "dead-letters.jsonl").read_text().splitlines()
    assert [json.loads(letter)["offset"] for letter in letters] == [0, 1, 2, 3, 4, 6, 7, 8]
    assert lostfound("state", "stats", "--json").rows[0]["counters"]["rejected"] == 8
    assert "nothing to do" in lostfound("ingest", path, "--sweep", "first").out


def test_files_without_pages_among_others_are_named(lostfound: Lostfound, tmp_path: Path) -> None:
    names = [f"{number}.jsonl" for number in range(7)]
    for name in names:
        (tmp_path / name).write_bytes(b'{"url": 7}\n')
    files = [tmp_path / name for name in names]
    result = lostfound("ingest", files[0], SAMPLE / "2023-03.jsonl", *files[1:], "--sweep", "first", "--json")
    assert result.code == 0
    assert result.rows[0]["files_without_pages"] == 7
    assert [str(file) in result.err for file in files] == [True] * 5 + [False] * 2
    assert "bad_field" in result.err


def test_a_file_that_was_replaced_by_one_without_pages_is_refused(lostfound: Lostfound, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", [page("https://a.org/", "some words")])
    assert lostfound("ingest", path, "--sweep", "first", "--keep-open").code == 0
    for content in (b"", b"root:x:0:0\n"):
        path.write_bytes(content)
        assert lostfound("ingest", path, "--sweep", "first").code == 2
        assert lostfound("sweep", "list", "--json").rows[0]["state"] == "open"


def test_an_empty_pipe_is_refused(lostfound: Lostfound, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    result = lostfound("ingest", "-", "--sweep", "first")
    assert result.code == 2
    assert "no page found in standard input: read 0 records" in result.err
