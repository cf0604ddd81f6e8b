"""Links without HTML: from WAT records, and from the column `links` of JSONL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.samples import html, jsonl, page
from tests.streams.cli.conftest import Lostfound
from tests.streams.readers.conftest import Build
from tests.streams.readers.test_wat import URL, metadata, wat

NOW = 1_700_000_000_000


@pytest.mark.parametrize("names", [("a.wat", "b.warc"), ("b.warc", "a.wat")])
def test_a_wat_beside_its_warc_changes_no_document(
    lostfound: Lostfound, tmp_path: Path, names: tuple[str, str]
) -> None:
    body = b"<p>Read the <a href=../y>manual</a> of the station, which is long."
    files = {"a.wat": wat(Build, metadata()), "b.warc": Build.warc(Build.http(body))}
    for name in names:
        (tmp_path / name).write_bytes(files[name])
    assert lostfound("ingest", *(tmp_path / name for name in names), "--sweep", "1").code == 0
    captures = lostfound("captures", URL, "--json").rows
    assert [bool(row["document"]) for row in captures] == [False, True]
    assert lostfound("find", URL, "--json").rows[0]["status"] == "alive"
    anchors = {(row["target"], row["anchor"]) for row in lostfound("links", URL, "--out", "--json").rows}
    assert {("http://a.org/y", "manual"), ("http://a.org/y", "Why"), ("http://b.org/", "B")} <= anchors
    assert lostfound("state", "check").code == 0
    later = jsonl(tmp_path / "later.jsonl", [html("http://a.org/other", "some words", 1_600_000_000_000)])
    assert lostfound("ingest", later, "--sweep", "2").code == 0
    assert lostfound("find", URL, "--json").rows[0]["document"] == captures[1]["document"]


def test_a_wat_alone_makes_its_urls_alive(lostfound: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "a.wat").write_bytes(wat(Build, metadata()) + wat(Build, metadata("404")).replace(b"/x", b"/z"))
    result = lostfound("ingest", tmp_path / "a.wat", "--sweep", "1", "--json")
    assert result.rows[0]["rejected"] == {}
    assert lostfound("find", URL, "--json").rows[0]["status"] == "alive"
    assert len(lostfound("links", URL, "--out", "--json").rows) == 4
    assert lostfound("links", "http://a.org/z", "--out").code == 1  # an error page


def outlinks(lostfound: Lostfound, url: str = URL) -> list[tuple[str, str, bool]]:
    rows = lostfound("links", url, "--out", "--json").rows
    return [(row["target"], row["anchor"], row["nofollow"]) for row in rows]


def test_links_of_a_text_are_stored_and_a_change_of_links_alone_is_noticed(
    lostfound: Lostfound, tmp_path: Path
) -> None:
    def ingest(sweep: str, time: int, links: Any) -> dict[str, Any]:
        path = jsonl(tmp_path / f"{sweep}.jsonl", [page(URL, "See the manual here.", time, links=links)])
        return lostfound("ingest", path, "--sweep", sweep, "--json").rows[0]

    ingest("1", NOW, ["y", {"url": "/z", "text": "manual", "rel": "nofollow"}])
    first = [("http://a.org/y", "", False), ("http://a.org/z", "manual", True)]
    assert outlinks(lostfound) == first
    rows = lostfound("links", "http://a.org/z", "--json").rows
    assert rows[0]["context"] == ["See the", "here."]
    assert ingest("2", NOW + 1, ["y"])["unchanged"] == 1
    assert outlinks(lostfound) == first
    assert [row["last_sweep"] for row in lostfound("links", URL, "--out", "--json").rows] == ["2", "1"]
    assert ingest("3", NOW + 2, ["y"])["unchanged"] == 1
    assert lostfound("state", "check").code == 0


def test_links_that_were_not_kept_are_stored_when_the_setting_changes(lostfound: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "off.toml").write_text('[policy]\nkeep_links = "off"\n')
    for sweep, options in (("1", ("--config", tmp_path / "off.toml")), ("2", ())):
        path = jsonl(tmp_path / "p.jsonl", [html(URL, "<a href=y>Some words</a>", NOW + int(sweep))])
        assert lostfound("ingest", path, "--sweep", sweep, *options).code == 0
        assert len(outlinks(lostfound)) == int(sweep) - 1
