"""Redirect maps: what they promise about chains, loops and odd characters."""

from __future__ import annotations

import csv

from hypothesis import given
from hypothesis import strategies as st

from streams.redirects import FORMATS, LeftOut, Redirect, flatten, source
from streams.urls import url_key

A, B, C, D = (f"https://a.example/{name}" for name in "abcd")


def test_chains_end_at_their_last_url_with_the_least_confidence() -> None:
    redirects, left_out = flatten([(A, B, 0.9), (B, C, 0.6), (D, C, 0.8)])
    assert redirects == [Redirect(A, C, 0.6, 2), Redirect(B, C, 0.6), Redirect(D, C, 0.8)]
    assert not left_out


def test_loops_are_refused_with_all_that_leads_into_them() -> None:
    redirects, left_out = flatten([(A, B, 0.9), (B, C, 0.9), (C, B, 0.9), (D, "https://a.example/e", 0.9)])
    assert [each.old for each in redirects] == [D]
    assert [each.old for each in left_out] == [A, B, C]


def test_a_move_to_the_same_page_by_another_scheme_is_a_loop() -> None:
    redirects, left_out = flatten([("http://a.example/x", "https://a.example/x#top", 1.0)])
    assert not redirects
    assert left_out == [LeftOut("http://a.example/x", "https://a.example/x#top", "it leads back to itself")]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_no_redirect_leads_to_another(pairs: list[tuple[int, int]]) -> None:
    moves = [(f"https://a.example/{old}", f"https://a.example/{new}", 1.0) for old, new in pairs]
    redirects, left_out = flatten(moves)
    olds = {url_key(each.old) for each in redirects}
    assert not {url_key(each.new) for each in redirects} & olds
    assert olds | {url_key(each.old) for each in left_out} == {url_key(old) for old, _, _ in moves}


def test_nginx_keys_are_quoted_and_values_hold_no_variable() -> None:
    redirects, _ = flatten([('https://a.example:8080/q?x="1"\\', "https://b.example/$host", 1.0)])
    lines = list(FORMATS["nginx"](redirects))
    assert lines[-2] == '    "a.example:8080/q?x=%221%22\\\\" "https://b.example/%24host";'
    assert lines[-1] == "}"


def test_apache_keys_and_values_hold_no_space() -> None:
    redirects, _ = flatten([("https://a.example/two words", "https://b.example/drei wörter", 1.0)])
    (line,) = [line for line in FORMATS["apache"](redirects) if not line.startswith("#")]
    assert line == "a.example/two%20words https://b.example/drei%20w%C3%B6rter"


def test_netlify_writes_paths_for_one_host_and_leaves_out_what_a_rule_cannot_say() -> None:
    redirects, _ = flatten([(A, B, 1.0), ("https://a.example/x?y=1", C, 1.0), ("https://a.example/w/:id", D, 1.0)])
    lines = list(FORMATS["netlify"](redirects))
    assert [line for line in lines if not line.startswith("#")] == ["/a /b 301"]
    assert len(lines) == 3
    assert all("left out" in line for line in lines[1:])


def test_netlify_writes_whole_urls_for_several_hosts() -> None:
    redirects, _ = flatten([(A, B, 1.0), ("http://c.example/x", D, 1.0)])
    assert list(FORMATS["netlify"](redirects)) == [
        "http://c.example/x https://a.example/d 301",
        "https://a.example/a https://a.example/b 301",
    ]


def test_csv_survives_commas() -> None:
    redirects, _ = flatten([("https://a.example/x,y", B, 0.75)])
    rows = list(csv.reader(FORMATS["csv"](redirects)))
    assert rows == [["from", "to", "confidence", "moves"], ["https://a.example/x,y", B, "0.750", "1"]]


def test_a_source_is_what_a_browser_sends() -> None:
    assert source("https://User@EXAMPLE.org:443/a b?c#d") == ("example.org", "/a%20b", "?c")
