"""Queries find a URL that differs from the captured one only by tracking parameters or by its scheme."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.samples import NOW, jsonl, page
from tests.streams.cli.conftest import SITE, Lostfound
from tests.streams.find.conftest import prose

MOVED, NEW, ALIVE = f"{SITE}/guide/alerts.html", f"{SITE}/manual/logging/", f"{SITE}/faq.html"
HTTP_ALIVE = ALIVE.replace("https:", "http:")
COMMANDS = ("find", "captures", "cluster", "similar")


@pytest.mark.usefixtures("sample_state")
@pytest.mark.parametrize("url", [f"{ALIVE}?utm_source=news&utm_medium=mail", f"{HTTP_ALIVE}?fbclid=x&_ga=1#top"])
@pytest.mark.parametrize("command", COMMANDS)
def test_tracking_parameters_are_ignored(lostfound: Lostfound, command: str, url: str) -> None:
    plain, tracked = (lostfound(command, name, "--json") for name in (ALIVE, url))
    assert (tracked.code, plain.code) == (0, 0)
    if command == "find":
        assert tracked.rows == [{**plain.rows[0], "url": url, "known_url": ALIVE}]
        assert plain.rows[0]["known_url"] is None
        assert f"captured as {ALIVE}" in lostfound("find", url).out
    else:
        assert tracked.rows == plain.rows
        assert f"{url} was never captured; the answer is about {ALIVE}" in tracked.err
        assert plain.err == ""


@pytest.mark.usefixtures("sample_state")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_scheme_does_not_matter(lostfound: Lostfound, command: str) -> None:
    by_https, by_http = (lostfound(command, name, "--json") for name in (ALIVE, HTTP_ALIVE))
    assert (by_http.code, by_http.err) == (0, "")
    if command == "find":
        assert by_http.rows == [{**by_https.rows[0], "url": HTTP_ALIVE}]
    else:
        assert by_http.rows == by_https.rows


@pytest.mark.usefixtures("sample_state")
@pytest.mark.parametrize("url", [f"{ALIVE}?page=2", f"{ALIVE}?utm_source=x&page=2", ALIVE.replace("www.", "")])
@pytest.mark.parametrize("command", COMMANDS)
def test_other_differences_matter(lostfound: Lostfound, command: str, url: str) -> None:
    assert lostfound(command, url, "--json").code != 0


@pytest.mark.usefixtures("sample_state")
def test_a_dead_url_with_tracking_parameters_has_moved_too(lostfound: Lostfound, tmp_path: Path) -> None:
    urls = [f"{MOVED}?utm_source=x", f"{MOVED}?page=2", MOVED.replace("https:", "http:")]
    (tmp_path / "urls").write_text("\n".join(urls))
    rows = list(csv.DictReader(lostfound("find", "--from-file", tmp_path / "urls", "--csv").out.splitlines()))
    assert [(row["url"], row["status"], row["now_at"], row["known_url"]) for row in rows] == [
        (urls[0], "moved", NEW, MOVED),
        (urls[1], "unknown", "", ""),
        (urls[2], "moved", NEW, ""),
    ]
    table = lostfound("find", "--from-file", tmp_path / "urls").out
    assert f"captured as {MOVED}, which differs only by tracking parameters" in table
    assert f"{urls[0]} {NEW} 301" not in lostfound("find", urls[0], "--redirects", "netlify").out, (
        "it ignores queries"
    )
    assert f"{urls[0]}," in lostfound("find", urls[0], "--redirects", "csv").out


def test_the_captured_url_may_have_the_tracking_parameters(lostfound: Lostfound, tmp_path: Path) -> None:
    old, new = "https://site.example/a?utm_source=feed", "https://site.example/b"
    for number, url in enumerate((old, new)):
        lines = [page(url, prose("ash"), NOW + number), page("https://site.example/", "home", NOW + number)]
        assert lostfound("ingest", jsonl(tmp_path / f"{number}", lines), "--sweep", f"{number}").code == 0
    for url in ("https://site.example/a", "http://site.example/a?gclid=1"):
        (row,) = lostfound("find", url, "--json").rows
        assert (row["status"], row["candidates"][0]["url"], row["known_url"]) == ("moved", new, old)
        assert lostfound("captures", url, "--json").rows[0]["url"] == old


@pytest.mark.usefixtures("sample_state")
def test_the_parameters_are_a_setting(lostfound: Lostfound, tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text('[find]\ntracking_parameters = ["partner?"]\n')
    assert lostfound("captures", f"{ALIVE}?partner1=x", "--config", config).code == 0
    assert lostfound("captures", f"{ALIVE}?utm_source=x", "--config", config).code == 1


@pytest.mark.usefixtures("sample_state")
def test_forget_deletes_only_the_url_that_it_names(lostfound: Lostfound) -> None:
    assert lostfound("forget", f"{ALIVE}?utm_source=x").code != 0
    assert lostfound("captures", ALIVE).code == 0
