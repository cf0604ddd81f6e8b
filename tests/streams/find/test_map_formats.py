"""The formats of redirect maps, read as their readers do: what each can express, and what it would misread."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from typing import Any

import pytest

from streams.find.map_formats.hosting_services import VERCEL_REDIRECTS_MAX, describe_cloudflare_limit
from streams.find.redirect_maps import FORMATS, RedirectMap, flatten_chains, render

SITE = "https://a.example"
OLD, NEW = f"{SITE}/old/", f"{SITE}/new/"
LOOSE = ("netlify", "cloudflare", "vercel", "mkdocs-redirects", "sphinx-reredirects")
HOSTILE = [
    '/x"y\\z',
    "/?q=${HOME}",
    "/?q={env.SECRET}\\",
    "/a\n\t\"b' c",
    "/%2e%2e%2f%2e%2e%2fetc.html",
    "/..%5c..%5cx",
    "/:path*(.*)",
    "/$1",
    "/é\u202e.html",
    "/%ff.html",
]


def moved(*pairs: tuple[str, str]) -> RedirectMap:
    return flatten_chains({old: (new, 1.0) for old, new in pairs})


def read_caddy(text: str) -> dict[str, str]:
    """Return the inputs and outputs of the map, split as Caddy splits quoted words."""
    return dict(re.findall(r'^    "((?:[^"\\]|\\[^"])*)" "([^"\\{}]*)"$', text, re.MULTILINE))


def read_vercel(text: str) -> list[dict[str, Any]]:
    redirects: list[dict[str, Any]] = json.loads(text)["redirects"]
    return redirects


def read_mkdocs(text: str) -> dict[str, str]:
    """Read the lines as JSON strings, which are YAML too."""
    lines = [line.strip() for line in text.splitlines() if line.startswith('        "')]
    return json.loads("{" + ",".join(lines) + "}") if lines else {}


def read_sphinx(text: str) -> dict[str, str]:
    (assignment,) = ast.parse(text).body
    assert isinstance(assignment, ast.Assign)
    value: dict[str, str] = ast.literal_eval(assignment.value)
    return value


def test_caddy_compares_host_path_and_query() -> None:
    text, dropped = render(moved((f"{SITE}/old?x=1&y", f"{SITE}/n?w={{env.HOME}}\\")), "caddy")
    assert read_caddy(text) == {"a.example/old?x=1&y": f"{SITE}/n?w=%7Benv.HOME%7D%5C"}
    assert text.startswith("# Import this file in the site block")
    assert '@moved expression `{moved_to} != ""`\nredir @moved {moved_to} permanent\n' in text
    assert not dropped


@pytest.mark.parametrize(("old", "new"), [("/old?{env.HOME}", "/new"), ("/old?\\", "/new"), ("/old", "/moved_to/")])
def test_caddy_is_given_nothing_that_it_expands_or_refuses(old: str, new: str) -> None:
    text, dropped = render(moved((SITE + old, SITE + new)), "caddy")
    assert not read_caddy(text)
    assert list(dropped) == [SITE + old]


def test_cloudflare_has_the_columns_of_a_bulk_redirect_list_and_no_header() -> None:
    text, dropped = render(
        moved((f"{SITE}/a,b", NEW), (f"{SITE}/q?x=1", NEW), (f"{SITE}:8080/port", NEW), ("http://b.example/c", NEW)),
        "cloudflare",
    )
    assert list(csv.reader(io.StringIO(text))) == [["b.example/c", NEW, "301"], ["a.example/a,b", NEW, "301"]]
    assert set(dropped) == {f"{SITE}/q?x=1", f"{SITE}:8080/port"}


def test_cloudflare_accepts_as_many_redirects_as_the_plan_allows() -> None:
    assert describe_cloudflare_limit(10_000) == ""
    note = describe_cloudflare_limit(10_001)
    assert note.startswith("the map has 10,001 redirects; ")
    assert all(limit in note for limit in ("10,000 (Free)", "25,000 (Pro)", "50,000 (Business)"))


def test_vercel_sources_are_patterns_without_special_characters() -> None:
    text, dropped = render(moved((f"{SITE}/:path*(.*)+", f"{SITE}/n/:host?a=$1"), (f"{SITE}/q?x=1", NEW)), "vercel")
    assert read_vercel(text) == [
        {"source": r"/\:path\*\(.\*\)\+", "destination": f"{SITE}/n/%3Ahost?a=%241", "statusCode": 301}
    ]
    assert list(dropped) == [f"{SITE}/q?x=1"]


def test_vercel_names_the_hosts_of_old_urls_if_there_are_several() -> None:
    redirects = read_vercel(render(moved((OLD, NEW), ("https://b.example/old/", NEW)), "vercel")[0])
    hosts = [redirect["has"] for redirect in redirects]
    assert hosts == [[{"type": "host", "value": rf"{host}\.example"}] for host in "ab"]


def test_vercel_is_given_at_most_as_many_redirects_as_it_accepts() -> None:
    moves = {f"{SITE}/{n:04}": (NEW, n / 3000) for n in range(VERCEL_REDIRECTS_MAX + 2)}
    text, dropped = render(RedirectMap(moves, {}), "vercel")
    assert [redirect["source"] for redirect in read_vercel(text)] == [url.removeprefix(SITE) for url in moves][2:]
    assert list(dropped) == [f"{SITE}/0001", f"{SITE}/0000"]
    assert "2,048" in dropped[f"{SITE}/0000"]


@pytest.mark.parametrize(
    ("old", "new", "source"),
    [
        ("/docs/old/", "/docs/new/", "old.md"),
        ("/docs/old/", "/docs/new.html", "old/index.md"),
        ("/docs/a%20b/c.html", "/docs/new.html", "a b/c.md"),
        ("/docs/é/", "/docs/new/", "é.md"),
        ("/docs/", "/new/", "index.md"),
        ("/docs/old", "/docs/new/", "old.md"),
        ("/docs/old.html", "/docs/new/", None),
        ("/docs/old.pdf", "/docs/new/", None),
        ("/docs/old/?page=2", "/docs/new/", None),
        ("/other/old/", "/docs/new/", None),
    ],
)
def test_mkdocs_sources_are_files_of_the_site(old: str, new: str, source: str | None) -> None:
    text, dropped = render(moved((SITE + old, SITE + new)), "mkdocs-redirects", f"{SITE}/docs/")
    assert read_mkdocs(text) == ({} if source is None else {source: SITE + new})
    assert list(dropped) == ([] if source else [SITE + old])


@pytest.mark.parametrize(
    ("old", "source"),
    [
        ("/docs/old.html", "old"),
        ("/docs/old/", "old/index"),
        ("/docs/", "index"),
        ("/docs/1.2/old.html", "1.2/old"),
        ("/docs/a%2A.html", None),
        ("/docs/old.txt", None),
        ("/old.html", None),
    ],
)
def test_sphinx_sources_are_documents_of_the_site(old: str, source: str | None) -> None:
    text, dropped = render(moved((SITE + old, NEW)), "sphinx-reredirects", f"{SITE}/docs/")
    assert read_sphinx(text) == ({} if source is None else {source: NEW})
    assert list(dropped) == ([] if source else [SITE + old])


def test_the_site_is_by_default_the_host_with_the_most_old_urls() -> None:
    text, dropped = render(
        moved((f"{SITE}/a/", NEW), (f"{SITE}/b/", NEW), ("https://b.example/c/", NEW)), "mkdocs-redirects"
    )
    assert list(read_mkdocs(text)) == ["a.md", "b.md"]
    assert "outside the site a.example/" in dropped["https://b.example/c/"]


@pytest.mark.parametrize("tail", HOSTILE)
def test_hostile_urls_cannot_leave_their_string_or_the_folder(tail: str) -> None:
    redirects = moved((SITE + tail, f"https://b.example{tail}"), (OLD, f"https://b.example{tail}"))
    caddy = render(redirects, "caddy")[0]
    assert len(read_caddy(caddy)) == caddy.count('"\n    "')
    assert all("source" in redirect for redirect in read_vercel(render(redirects, "vercel")[0]))
    assert {len(row) for row in csv.reader(io.StringIO(render(redirects, "cloudflare")[0]))} == {3}
    names = [*read_mkdocs(render(redirects, "mkdocs-redirects")[0])]
    names += read_sphinx(render(redirects, "sphinx-reredirects")[0])
    assert not [name for name in names if ".." in name or name.startswith("/") or "\\" in name]
    for map_format in FORMATS:
        assert "\u202e" not in render(redirects, map_format)[0]


def test_netlify_is_given_no_redirect_that_only_changes_the_slash_at_the_end() -> None:
    """Netlify treats both spellings as one path, so such a redirect is a loop."""
    added, removed, query = (f"{SITE}/a", f"{SITE}/a/"), (f"{SITE}/b/", f"{SITE}/b"), (f"{SITE}/c", f"{SITE}/c?x=1")
    text, dropped = render(moved(added, removed, query, (OLD, NEW)), "netlify")
    assert text == f"/old/ {NEW} 301\n"
    assert set(dropped) == {added[0], removed[0], query[0]}
    assert "slash" in dropped[added[0]]
    for map_format in ("nginx", "apache", "caddy", "cloudflare"):
        assert f"{SITE}/a/" in render(moved(added), map_format)[0]


@pytest.mark.parametrize("map_format", LOOSE)
def test_no_redirect_hides_the_new_page_of_another(map_format: str) -> None:
    """The page of OLD is now at /b?x=1 (and /b/), which the map must not redirect away."""
    target = f"{SITE}/b.html" if "redirects" in map_format else f"{SITE}/b?x=1"
    old = f"{SITE}/b/" if "redirects" in map_format else f"{SITE}/b"
    _, dropped = render(moved((OLD, target), (old, f"{SITE}/c/")), map_format)
    assert list(dropped) == [old]
    assert "differs from a new URL only in" in dropped[old]


def test_two_spellings_of_one_old_url_are_one_netlify_rule() -> None:
    text, dropped = render(moved((f"{SITE}/a", f"{SITE}/x"), (f"{SITE}/a/", f"{SITE}/y")), "netlify")
    assert text == f"/a {SITE}/x 301\n"
    assert "differs from another URL" in dropped[f"{SITE}/a/"]


def test_apache_maps_name_allow_encoded_slashes_where_it_is_needed() -> None:
    encoded, _ = render(moved((f"{SITE}/a%2Fb", NEW)), "apache")
    assert "# AllowEncodedSlashes NoDecode\n" in encoded
    plain, _ = render(moved((OLD, f"{SITE}/n%2fw"), (f"{SITE}/q?x=%2F", NEW)), "apache")
    assert "AllowEncodedSlashes" not in plain
