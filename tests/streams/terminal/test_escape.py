"""Crawled text cannot control a terminal."""

from __future__ import annotations

import json
from urllib.parse import unquote

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streams.find.answer import Answer, Candidate, Evidence
from streams.query import Cluster, UrlCapture
from streams.terminal import tables
from streams.terminal.escape import escape_json, escape_text, escape_url, pluralise
from tests.streams.terminal.rendering import render

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\u202etxt.exe\u2028next"


def test_control_characters_become_visible() -> None:
    assert escape_text(HOSTILE) == "␛[31mred␛]0;title␇�2J␡�txt.exe�next"


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    escaped = escape_text(text)
    assert len(escaped) == len(text)
    assert not {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066)} & set(escaped)


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_words_of_any_script_are_unchanged(text: str) -> None:
    assert escape_text(text) == text


@given(st.text(st.characters(codec="utf-8")))
def test_escaped_json_has_the_same_value(text: str) -> None:
    escaped = escape_json(msgspec.json.encode({"title": text + HOSTILE}))
    assert json.loads(escaped) == {"title": text + HOSTILE}
    assert escape_text(escaped.decode()) == escaped.decode()


@given(st.text(st.characters(codec="utf-8")))
def test_an_escaped_url_decodes_to_the_same_url(text: str) -> None:
    escaped = escape_url(text + HOSTILE)
    assert escape_text(escaped) == escaped
    assert unquote(escaped) == unquote(text + HOSTILE)
    assert escape_url("https://a.example/ä%20b?c=d") == "https://a.example/ä%20b?c=d"


def test_tables_contain_no_control_characters() -> None:
    url = f"https://a.example/{HOSTILE}"
    candidate = Candidate(
        url=url,
        confidence=0.9,
        resemblance=0.8,
        containment=0.8,
        first_seen=None,
        last_seen=None,
        evidence=[Evidence("rule", detail=HOSTILE)],
    )
    answer = Answer(url=url, status="moved", last_seen=None, document=None, candidates=[candidate])
    cluster = Cluster(cluster="ab" * 16, documents=["ab" * 16], urls=[url], document_count=1, url_count=1)
    capture = UrlCapture(url=url, time=0, sweep="one", status=301, document=None, redirect=url, resemblance=None)
    for table in (
        tables.answer_table(answer),
        tables.answers_table([answer, answer]),
        tables.clusters_table([cluster], lambda _: HOSTILE),
        tables.captures_table([capture]),
    ):
        assert not {"\x1b", "\x07", "\x9b", "\x7f", "\u202e"} & set("\n".join(render(table, 300)))


def test_nouns_are_plural_except_for_one() -> None:
    assert [pluralise(count, "page") for count in (0, 1, 2_000)] == ["0 pages", "1 page", "2,000 pages"]
