"""What others wrote cannot steer a terminal."""

from __future__ import annotations

import io
import json
from urllib.parse import unquote

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from streams.find.answer import Answer, Candidate, Evidence
from streams.query import Cluster, UrlCapture
from streams.terminal import tables
from streams.terminal.escape import escaped, percent, plain

HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\x7f\u202etxt.exe\u2028next"


def test_controls_are_made_visible() -> None:
    assert plain(HOSTILE) == "␛[31mred␛]0;title␇�2J␡�txt.exe�next"


@given(st.text())
def test_nothing_that_steers_is_left(text: str) -> None:
    shown = plain(text)
    assert len(shown) == len(text)
    assert not {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x202E, 0x2066)} & set(shown)


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_words_of_any_script_stay(text: str) -> None:
    assert plain(text) == text


@given(st.text(st.characters(codec="utf-8")))
def test_json_steers_nothing_and_says_the_same(text: str) -> None:
    said = escaped(msgspec.json.encode({"title": text + HOSTILE}))
    assert json.loads(said) == {"title": text + HOSTILE}
    assert plain(said.decode()) == said.decode()


@given(st.text(st.characters(codec="utf-8")))
def test_urls_in_tables_steer_nothing_and_lead_to_the_same(text: str) -> None:
    said = percent(text + HOSTILE)
    assert plain(said) == said
    assert unquote(said) == unquote(text + HOSTILE)
    assert percent("https://a.example/ä%20b?c=d") == "https://a.example/ä%20b?c=d"


def test_answers_show_no_controls() -> None:
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
    found = Answer(url=url, status="moved", last_seen=None, document=None, candidates=[candidate])
    cluster = Cluster(cluster="ab" * 16, documents=["ab" * 16], urls=[url], document_count=1, url_count=1)
    version = UrlCapture(url=url, time=0, sweep="one", status=301, document=None, redirect=url, resemblance=None)
    for shown in (
        tables.answer(found),
        tables.answers([found, found]),
        tables.clusters([cluster], lambda _: HOSTILE),
        tables.history([version]),
    ):
        to = Console(file=io.StringIO(), width=300, color_system=None)
        to.print(shown)
        assert isinstance(to.file, io.StringIO)
        assert not {"\x1b", "\x07", "\x9b", "\x7f", "\u202e"} & set(to.file.getvalue())
