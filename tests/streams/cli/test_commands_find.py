"""`lostfound find` on the sample set: statuses, input and output."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from streams.cli import app
from streams.cli.commands_find import MAP_FORMATS
from streams.find.redirect_maps import FORMATS
from tests.samples import NOW, jsonl, page
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound, Result

MOVED = {
    "/guide/calibration.html": "/manual/calibration/",
    "/guide/logging.html": "/manual/logging/",
    "/guide/export.html": "/manual/export/",
    "/guide/alerts.html": "/manual/logging/",  # folded in
}
GONE = "/radio/packet.html"
FORMS = ("nginx", "apache", "caddy", "netlify", "cloudflare", "vercel", "csv")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample state, shared by all tests because they only read it."""
    folder = tmp_path_factory.mktemp("data")
    for sweep in SWEEPS:
        path = SAMPLE / f"{sweep}.jsonl"
        assert app.run(["--data-dir", str(folder), "ingest", str(path), "--sweep", sweep]) == 0
    return folder


@pytest.fixture
def find(lostfound: Lostfound, data_dir: Path) -> Lostfound:
    def run(*arguments: object) -> Result:
        return lostfound("--data-dir", data_dir, "find", *arguments)

    return run


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_moved_pages_are_found(find: Lostfound, old: str, new: str) -> None:
    (answer,) = find(SITE + old, "--json").rows
    best = answer["candidates"][0]
    assert (answer["status"], best["url"]) == ("moved", SITE + new)
    assert best["confidence"] > 0.5
    assert best["containment"] > 0.8
    assert best["evidence"]
    assert list(answer) == ["url", "status", "last_seen", "document", "candidates", "known_url", "decision"]


def test_pages_can_be_gone_alive_and_unknown(find: Lostfound) -> None:
    result = find(SITE + GONE, f"{SITE}/faq.html", f"{SITE}/never.html", "--json")
    assert [row["status"] for row in result.rows] == ["gone", "alive", "unknown"]
    assert result.code == 0


def test_the_exit_code_is_1_if_all_urls_are_unknown(find: Lostfound) -> None:
    result = find(f"{SITE}/never.html", "--json")
    assert result.code == 1
    assert result.rows[0]["status"] == "unknown"


@pytest.mark.parametrize("url", ["www.windvane.example/faq.html", "ftp://a.example/", "not a url"])
def test_an_invalid_url_on_the_command_line_is_an_error(find: Lostfound, url: str) -> None:
    result = find(f"{SITE}{GONE}", url)
    assert (result.code, result.out) == (2, "")
    assert url in result.err
    assert "http://" in result.err


def test_an_invalid_url_in_a_file_is_unknown(find: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "urls").write_text(f"# dead links\n\nnot a url\n  {SITE}{GONE}\n")
    rows = find("--from-file", tmp_path / "urls", "--json").rows
    assert [(row["url"], row["status"]) for row in rows] == [("not a url", "unknown"), (SITE + GONE, "gone")]


def test_urls_can_come_from_stdin(find: Lostfound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{SITE}{GONE}\n".encode())))
    assert [row["status"] for row in find("--from-file", "-", "--json").rows] == ["gone"]


def test_missing_finds_all_missing_urls(find: Lostfound) -> None:
    rows = find("--missing", "--json").rows
    assert {row["url"].removeprefix(SITE) for row in rows} == {*MOVED, GONE}


def test_csv_has_one_row_per_url(find: Lostfound) -> None:
    rows = list(csv.DictReader(find("--missing", "--csv").out.splitlines()))
    new_urls = {row["url"]: row["now_at"] for row in rows if row["status"] == "moved"}
    assert new_urls == {SITE + old: SITE + new for old, new in MOVED.items()}


def test_csv_contains_no_formula(find: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "urls").write_text("=1+1\n")
    result = find("--from-file", tmp_path / "urls", "--csv")
    assert result.out.splitlines()[1].startswith("'=1+1,unknown")


def test_control_characters_of_urls_are_escaped(lostfound: Lostfound, tmp_path: Path) -> None:
    old, new = f"{SITE}/a\x1b]0;title\x07\x9b2J", f"{SITE}/b\x1b[2J\u202e"
    text = " ".join(f"word{n}" for n in range(80))
    for sweep, url in (("one", old), ("two", new)):
        jsonl(tmp_path / f"{sweep}.jsonl", [page(url, text, NOW), page(f"{SITE}/", "home", NOW)])
        assert lostfound("ingest", tmp_path / f"{sweep}.jsonl", "--sweep", sweep).code == 0
    (tmp_path / "urls").write_text(f"{old}\n", encoding="utf-8")
    rows = lostfound("find", "--from-file", tmp_path / "urls", "--csv").out
    assert f"{SITE}/a%1B]0;title%07%C2%9B2J,moved" in rows
    assert f",{SITE}/b%1B[2J%E2%80%AE," in rows
    answers = lostfound("find", "--from-file", tmp_path / "urls", "--json")
    assert answers.rows[0]["candidates"][0]["url"] == new
    captured = lostfound("captures", new, "--json")
    assert captured.rows[0]["url"] == new
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(rows + answers.out + captured.out)


@pytest.mark.parametrize("form", FORMS)
def test_redirect_maps_contain_every_move(find: Lostfound, form: str) -> None:
    out = find("--missing", "--redirects", form).out
    assert all(any(old in line and new in line for line in out.splitlines()) for old, new in MOVED.items())
    assert GONE not in out


def test_min_confidence_can_be_higher_than_that_of_a_move(find: Lostfound) -> None:
    result = find("--missing", "--redirects", "csv", "--min-confidence", "1")
    assert len(result.out.splitlines()) == 1


def test_min_confidence_can_be_lower_than_that_of_a_move(find: Lostfound, tmp_path: Path) -> None:
    strict = tmp_path / "strict.toml"
    strict.write_text("[find]\nconfidence_min = 1.0\n")
    arguments = ("--missing", "--redirects", "csv", "--config", strict)
    assert len(find(*arguments).out.splitlines()) == 1
    redirects = list(csv.DictReader(find(*arguments, "--min-confidence", "0.5").out.splitlines()))
    assert {row["old"]: row["new"] for row in redirects} == {SITE + old: SITE + new for old, new in MOVED.items()}


def test_the_table_shows_the_new_url_of_moved_pages(find: Lostfound) -> None:
    result = find("--missing")
    assert "→ https://www.windvane.example/manual/logging/" in result.out
    assert result.err == "1 gone, 4 moved\n"
    assert "→" not in find(f"{SITE}/faq.html").out


def test_a_single_answer_shows_its_evidence(find: Lostfound) -> None:
    assert "redirects there" in find(f"{SITE}/guide/calibration.html").out
    assert "weaker candidate" in find(f"{SITE}/guide/calibration.html").out


@pytest.mark.parametrize("arguments", [(), ("--missing", "--json", "--csv"), ("--from-file", "nowhere.txt")])
def test_invalid_combinations_of_options_are_errors(find: Lostfound, arguments: tuple[str, ...]) -> None:
    assert find(*arguments).code == 2


def test_urls_on_the_command_line_are_answered_before_missing_ones(find: Lostfound) -> None:
    missing = find("--missing", "--json").rows
    alive, unknown = f"{SITE}/faq.html", "https://nowhere.example/"
    rows = find(alive, unknown, "--missing", "--json").rows
    assert [(row["url"], row["status"]) for row in rows[:2]] == [(alive, "alive"), (unknown, "unknown")]
    assert rows[2:] == missing


def test_nothing_is_missing_after_one_sweep(lostfound: Lostfound, tmp_path: Path) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text(
        json.dumps({"url": "https://a.example/", "text": "the only page of all", "fetch_time": "2026-01-01"})
    )
    lostfound("ingest", pages, "--sweep", "only")
    result = lostfound("find", "--missing")
    assert (result.code, result.out, result.err) == (1, "", "no URL is missing\n")


def test_an_empty_file_of_urls_is_reported(find: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "urls").write_text("# nothing yet\n")
    result = find("--from-file", tmp_path / "urls")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"{tmp_path / 'urls'} contains no URLs\n"


def test_missing_and_single_lookups_agree(lostfound: Lostfound, tmp_path: Path) -> None:
    """Soft 404s and an error later in the same sweep are missing; "not modified" and pages without text are not."""
    names = ("cod", "pike", "carp", "bass", "hake", "ling", "tench")
    urls = [f"https://a.example/{name}" for name in (*names, "late", "same", "paper", "stays")]
    texts = {url: " ".join(f"{url[18:]}{n}" for n in range(60)) for url in urls}
    sorry = " ".join(f"sorry{n}" for n in range(60))
    first: list[dict[str, object]] = [{"url": url, "text": text} for url, text in texts.items()]
    second: list[dict[str, object]] = [
        {"url": urls[-4], "text": texts[urls[-4]]},
        {"url": urls[-4], "status": 404, "fetch_time": "2026-02-02"},
        {"url": urls[-3], "status": 304},
        {"url": urls[-2], "body": "AAAA", "mime": "application/pdf"},
        {"url": urls[-1], "text": texts[urls[-1]]},
    ]
    second += [{"url": url, "text": sorry} for url in urls[: len(names)]]
    for month, pages in ((1, first), (2, second)):
        path = tmp_path / f"{month}.jsonl"
        path.write_text("".join(json.dumps({"fetch_time": f"2026-0{month}-01", **page}) + "\n" for page in pages))
        lostfound("ingest", path, "--sweep", str(month))
    missing = {row["url"] for row in lostfound("find", "--missing", "--json").rows}
    one_by_one = {row["url"]: row["status"] for row in lostfound("find", *urls, "--json").rows}
    assert missing == {url for url, status in one_by_one.items() if status != "alive"} == set(urls[:-3])
    rows = lostfound("captures", urls[-3], "--json").rows
    assert rows[0]["document"] == rows[1]["document"]


def test_a_file_of_urls_can_start_with_a_byte_order_mark(find: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "urls").write_bytes(b"\xef\xbb\xbf" + f"{SITE}{GONE}\r\n".encode())
    assert [row["url"] for row in find("--from-file", tmp_path / "urls", "--json").rows] == [SITE + GONE]


def test_an_argument_that_is_not_utf8_is_unknown(find: Lostfound) -> None:
    result = find("https://a.example/\udcff", "--json")
    assert (result.code, result.rows[0]["status"]) == (1, "unknown")


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "much"])
def test_min_confidence_is_a_number_from_0_to_1(find: Lostfound, value: str) -> None:
    assert find("--missing", "--redirects", "csv", "--min-confidence", value).code == 2


def test_reached_limits_are_logged_with_verbose(lostfound: Lostfound, data_dir: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.toml"
    few.write_text("[find]\ngathered_max = 1\n")
    arguments = ("--data-dir", data_dir, "find", SITE + GONE, "--config", few)
    assert "gathered_max" not in lostfound(*arguments).err
    assert "gathered_max" in lostfound(*arguments, "-v").err


def test_missing_urls_are_selected_by_status_confidence_and_number(find: Lostfound) -> None:
    rows = find("--missing", "--json").rows
    for status in ("moved", "gone"):
        selected = find("--missing", "--json", "--status", status).rows
        assert selected == [row for row in rows if row["status"] == status]
        assert selected
    assert find("--missing", "--json", "--limit", "2").rows == rows[:2]
    assert find("--missing", "--json", "--status", "gone", "--limit", "2").rows == selected
    confidences = sorted(row["candidates"][0]["confidence"] for row in rows)
    sure = find("--missing", "--json", "--min-confidence", confidences[-2]).rows
    assert [row["candidates"][0]["confidence"] for row in sure] == [
        row["candidates"][0]["confidence"] for row in rows if row["candidates"][0]["confidence"] >= confidences[-2]
    ]
    assert len(sure) == 2


def test_missing_urls_are_selected_by_host_and_prefix(lostfound: Lostfound, tmp_path: Path) -> None:
    urls = [f"https://{host}/{name}" for host in ("a.example", "b.a.example") for name in ("x/1", "x/2", "y")]
    text = " ".join(f"word{n}" for n in range(60))
    stays = [page(f"https://{host}/", f"home {host}", NOW) for host in ("a.example", "b.a.example")]
    jsonl(tmp_path / "1.jsonl", [*stays, *(page(url, f"{text} {url}", NOW) for url in urls)])
    jsonl(tmp_path / "2.jsonl", stays)
    for sweep in ("1", "2"):
        assert lostfound("ingest", tmp_path / f"{sweep}.jsonl", "--sweep", sweep).code == 0

    def missing(*options: str) -> list[str]:
        return [row["url"] for row in lostfound("find", "--missing", "--json", *options).rows]

    assert missing() == urls
    assert missing("--host", "a.example") == urls[:3]
    assert missing("--host", "B.a.example") == urls[3:]
    assert missing("--prefix", "https://a.example/x/") == urls[:2]
    assert missing("--prefix", "http://b.a.example/x/2") == urls[4:5]
    none = lostfound("find", "--missing", "--host", "c.example")
    assert (none.code, none.out, none.err) == (1, "", "no missing URL matches these options\n")


@pytest.mark.parametrize(
    "options",
    [
        (SITE, "--status", "gone"),
        (SITE, "--limit", "1"),
        (SITE, "--host", "a.example"),
        ("--missing", "--host", "a.example", "--prefix", SITE),
        ("--missing", "--host", "https://a.example/"),
        ("--missing", "--prefix", "a.example"),
        ("--missing", "--status", "alive"),
    ],
)
def test_invalid_selections_are_errors(find: Lostfound, options: tuple[str, ...]) -> None:
    result = find(*options)
    assert (result.code, result.out) == (2, "")
    assert "Traceback" not in result.err


def test_pages_of_a_map_are_named_below_the_prefix(find: Lostfound) -> None:
    out = find("--missing", "--prefix", f"{SITE}/guide/", "--redirects", "sphinx-reredirects").out
    assert f'    "alerts": "{SITE}/manual/logging/",\n' in out


def test_every_format_can_be_chosen() -> None:
    assert set(MAP_FORMATS) == set(FORMATS)
