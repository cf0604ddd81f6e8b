"""`ingest` reads feeds with other names of columns, and folders of HTML."""

from __future__ import annotations

import json

import pytest

from streams.settings import load

BASE = "https://docs.example.org/"


@pytest.fixture
def build(tmp_path):
    for name in ("index.html", "guide/install.html", "_static/x.html", "404.html"):
        path = tmp_path / "html" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f"<html><title>{name}</title><body><p>The page {name} explains {name} at length.</p></body></html>"
        )
    return tmp_path / "html"


def test_a_build_becomes_a_sweep(lostfound, build):
    result = lostfound("ingest", build, "--base-url", BASE, "--sweep", "5.1", "--time", "2026-03-01")
    assert result.code == 0
    assert "2 pages" in result.out
    (row,) = lostfound("captures", f"{BASE}guide/install.html", "--json").rows
    assert row["time"] == "2026-03-01T00:00:00Z"
    assert lostfound("captures", f"{BASE}404.html").code == 1
    again = lostfound("ingest", build, "--base-url", BASE, "--sweep", "5.1", "--time", "2026-03-01")
    assert "nothing to do" in again.out
    other = lostfound("ingest", build, "--base-url", f"{BASE}de/", "--sweep", "5.1", "--time", "2026-03-01")
    assert other.code == 2


def test_a_page_that_moved_between_builds_is_found(lostfound, build):
    assert lostfound("ingest", build, "--base-url", BASE, "--sweep", "5.0", "--time", "2026-03-01").code == 0
    (build / "guide" / "install.html").rename(build / "setup.html")
    assert lostfound("ingest", build, "--base-url", BASE, "--sweep", "5.1", "--time", "2026-04-01").code == 0
    (row,) = lostfound("find", f"{BASE}guide/install.html", "--json").rows
    assert row["status"] == "moved"
    assert row["candidates"][0]["url"] == f"{BASE}setup.html"


def test_a_build_without_a_base_url_is_recognised(lostfound, build):
    result = lostfound("ingest", build, "--sweep", "x")
    assert result.code == 2
    assert "as in a built site" in result.err
    assert "--base-url" in result.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--exclude", "x"], "--exclude has no effect"), (["--time", "yesterday"], "not a time"),
        (["--field", "text"], "not NAME=COLUMN"), (["--field", "content=text"], "there is no field 'content'"),
        (["--field", "text=a", "--field", "text=b"], "twice"), (["--base-url", "docs"], "--base-url 'docs'"),
        (["--base-url", BASE, "."], "one folder"),
    ],
)  # fmt: skip
def test_invalid_options_are_refused_before_a_state_is_created(lostfound, build, tmp_path, options, problem):
    result = lostfound("ingest", build, "--sweep", "x", *options)
    assert result.code == 2
    assert problem in result.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["pages.jl", "pages.json", "pages.csv"])
def test_a_feed_with_other_names_is_read(lostfound, tmp_path, name):
    item = {"link": "https://a.example/x", "content": "The text of a page, in a field of another name."}
    contents = {
        "jl": json.dumps(item),
        "json": json.dumps([item]),
        "csv": 'link,content\n{link},"{content}"\n'.format(**item),
    }
    (tmp_path / name).write_text(contents[name.split(".")[1]])
    fields = ["--field", "url=link", "--field", "text=content"]
    assert lostfound("ingest", tmp_path / name, "--sweep", "x", *fields).code == 0
    assert lostfound("captures", "https://a.example/x").code == 0


def test_the_help_names_the_patterns_of_the_settings(lostfound):
    patterns = load().ingest.html_exclude
    assert f"{', '.join(patterns[:-1])} and {patterns[-1]}" in " ".join(lostfound("ingest", "--help").out.split())
