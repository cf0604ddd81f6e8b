"""Files of decisions: the formats, and messages that name the line."""

from __future__ import annotations

from io import StringIO

import pytest

from state.model import DecisionKind
from streams.decisions import decision_file, read_decisions
from streams.errors import InputError

A, B, C = "https://a.example/a", "https://a.example/b?x=1,2", "https://a.example/c"
NOW = 1_800_000_000_000


def read(text: str, **options: bool) -> list[tuple[str, str | None, int]]:
    decisions = read_decisions(StringIO(text), "file", NOW, **options)
    assert all((decision.kind is DecisionKind.MOVED) == (decision.new_url is not None) for decision in decisions)
    return [(decision.old_url, decision.new_url, decision.time) for decision in decisions]


@pytest.mark.parametrize(
    "text",
    [
        f"{A} {B}\n{C}\n",
        f"# a comment\n\n  {A}   {B} 301\r\n{C} -\r\n",
        f"{A}\t{B}\n{C}\t\n",
        f'{A},"{B}"\n{C},\n',
        f'old,new,confidence\n{A},"{B}",0.98\n{C},-,\n',
        f'confidence,New,Old\n0.98,"{B}",{A}\n,,{C}\n',
        f'{{"old":"{A}","new":"{B}","rank":3}}\n{{"old":"{C}","new":null}}\n',
        f'{{"old":"{A}","new":"{B}"}}\n{{"old":"{C}"}}\n',
    ],
)
def test_all_formats_mean_the_same(text: str) -> None:
    assert read(text) == [(A, B, 0), (C, None, 0)]


def test_a_time_in_the_past_is_kept() -> None:
    dated = [(A, None, 1_700_000_000_000)]
    assert read(f"old\tnew\tdecided_at\n{A}\t\t2023-11-14T22:13:20Z\n") == dated
    assert read(f'{{"old":"{A}","new":null,"decided_at":"2023-11-14T22:13:20Z"}}') == dated


def test_an_old_url_without_a_scheme_is_accepted() -> None:
    """Maps for Apache and Cloudflare contain such URLs."""
    assert read(f"a.example:8080/x {B}") == [("https://a.example:8080/x", B, 0)]
    assert read(f"a.example/x,{C},301") == [("https://a.example/x", C, 0)]


def test_a_repeated_line_counts_once() -> None:
    assert read(f"{A} {B}\n{A} {B}\n{A.replace('https', 'http')} {B}") == [(A, B, 0)]


def test_an_empty_file_contains_no_decision() -> None:
    assert read("") == read("# nothing\n\n") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{A} {B}\nnot-a-url {B}", "line 2: .*not-a-url"),
        (f"# comment\n{A} nowhere", "line 2: .*nowhere"),
        (f"/old {B}", "line 1: .*/old"),
        (f"{A} {B}\n{A} {C}", "line 2: contradicts line 1"),
        (f"{A} {B}\n{A} -", "line 2: contradicts line 1"),
        (f"{A} http://a.example/a#x", "line 1: .* are one URL|line 1: .*both are one URL"),
        (f"{A},{C}\n,{C}", "line 2: has no old URL"),
        (f'{A},{C}\n"{C}', "line 2: "),
        ('{"old":1}', "line 1: "),
        (f'{{"old":"{A}"}}\n{A} {B}', "line 2: "),
        (f'{{"old":"{A}","decided_at":"2099-01-01"}}', "line 1: '2099-01-01' is not a time in the past"),
        (f'{{"old":"{A}","decided_at":"yesterday"}}', "line 1: 'yesterday' is not a time"),
        (f"{A} {B}\n\ufffd", "line 2: is not text in UTF-8"),
        (f"{A} {B}\0", "line 1: is not text"),
        (f"{A} {'x' * decision_file.LINE_CHARACTERS_MAX}", "line 1: is longer than"),
    ],
)
def test_an_invalid_line_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"file, {message}") as caught:
        read(text)
    assert caught.value.hint


def test_a_list_of_gone_pages_has_no_new_urls() -> None:
    assert read(f"{A}\n{C}", only_gone=True) == [(A, None, 0), (C, None, 0)]
    with pytest.raises(InputError, match="line 2: a page that is gone has no new URL"):
        read(f"{A}\n{C} {B}", only_gone=True)
