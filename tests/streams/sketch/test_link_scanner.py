"""The scanner finds the same tags as html.parser and resiliparse's tree, and hostile pages take linear time."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from streams.sketch.link_records import AREA, BASE, IN_NAVIGATION, LINK, A
from streams.sketch.link_scanner import TEXT_BYTES_MAX, scan

NAMES = {A: "a", AREA: "area", LINK: "link", BASE: "base"}


def scanned(markup: str, links_max: int = 1000) -> list[tuple[int, str, str]]:
    """Return the kind, the tag and the content of each link."""
    data = markup.encode()
    _, rows, dropped = scan(data, links_max)
    assert dropped == 0
    return [
        (kind, data[start:middle].decode(), data[middle:end].decode()) for kind, start, middle, end in rows.tolist()
    ]


@pytest.mark.parametrize(
    ("markup", "tags"),
    [
        ('<p><A HREF="x">text</A>', [(A, '<A HREF="x">', "text")]),
        ("<a href=x>one<a href=y>two", [(A, "<a href=x>", "one"), (A, "<a href=y>", "two")]),
        ("<a href=x>one <b>two</b>", [(A, "<a href=x>", "one <b>two</b>")]),
        ("<area href=x><link rel=y><base\nhref=z>", [(AREA, "<area href=x>", ""), (LINK, "<link rel=y>", ""), (BASE, "<base\nhref=z>", "")]),
        ("<nav><a>x</a></nav><a>y</a>", [(A | IN_NAVIGATION, "<a>", "x"), (A, "<a>", "y")]),
        ("</nav><footer><aside><a></aside><a>", [(A | IN_NAVIGATION, "<a>", "</aside>"), (A | IN_NAVIGATION, "<a>", "")]),
        # Attribute values: a `>` in quotes, other quotes, and quotes that do not begin a value.
        ("""<a title="1 > 0" href='x"'>t</a>""", [(A, """<a title="1 > 0" href='x"'>""", "t")]),
        ("""<a href = ">">t</a>""", [(A, """<a href = ">">""", "t")]),
        ("""<a href=x?y=">t</a>""", [(A, """<a href=x?y=">""", "t")]),
        ("""<a x' href=y">t</a>""", [(A, """<a x' href=y">""", "t")]),
        # Comments and declarations.
        ("<!-- <a href=x> --><a>", [(A, "<a>", "")]),
        ("<!doctype <a href=x><a>", [(A, "<a>", "")]),
        ("<?xml <a href=x>?><a>", [(A, "<a>", "")]),
        ("<!-- <a href=x>", []),
        ("<!", []),
        # Elements whose content is not markup.
        ("<script>'<a href=x>'</script><a>", [(A, "<a>", "")]),
        ("<title><a></title><textarea><a></textarea><style><a></style ><a>", [(A, "<a>", "")]),
        ("<script>x</scripts><a></script/><a>", [(A, "<a>", "")]),
        ("<script><!-- <a> --></script><a>", [(A, "<a>", "")]),
        ("<template-list><a></template-list>", [(A, "<a>", "</template-list>")]),
        # Other elements, and text that looks like a tag.
        ("<abbr><a-b><a:b><base-x><links><article>", []),
        ("1 <2 <a>", [(A, "<a>", "")]),
        ("< a><a>", [(A, "<a>", "")]),
        # A page that is cut off has no tag at its end.
        ('<a href="x', []),
        ("<a href=x", []),
        ("<", []),
        ("</", []),
        ("", []),
    ],
)  # fmt: skip
def test_tags_are_found_as_the_standard_says(markup: str, tags: list[tuple[int, str, str]]) -> None:
    assert scanned(markup) == tags


def test_comments_end_early_where_the_standard_says_so() -> None:
    assert len(scanned("<!--><a><!---><a><!-- --!><a><!-- -- > <a> -->")) == 3


def test_content_is_cut_and_links_are_counted_beyond_the_limit() -> None:
    ((_, _, content),) = scanned("<a>" + "x" * 10_000)
    assert len(content) == TEXT_BYTES_MAX
    _, rows, dropped = scan(b"<a>" * 25, 10)
    assert (len(rows), dropped) == (10, 15)
    assert scan(b"<a>" * 25, 25).dropped == 0


PIECES = [
    "<a href=/x>", '<a class="b" href="y">', "</a>", "<p>", "</p>", "<b>", "</b>", "<li>", " text ", "<link rel=z href=q>",
    "<area href='r'>", "<img alt='<a>'>", "<!-- <a href=no> -->", "<script>if (a<b) '<a href=no>'</script>", "&amp;", "\n",
    "<title>", "</title>", "<style>a{}</style>", "<a\nhref=s>", "<A HREF=t>", "1 < 2", "<br/>", "é",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_links_are_those_of_a_parser(pieces: list[str]) -> None:
    markup = "<!doctype html><body>" + "".join(pieces)
    hrefs = [
        (NAMES[kind % IN_NAVIGATION], tag.lower().rpartition("href=")[2].strip("'\">"))
        for kind, tag, _ in scanned(markup)
    ]
    elements = HTMLTree.parse(markup).document.query_selector_all("a[href], area[href], link[href]")
    # A parser may repeat an unclosed <a> in the next paragraph.
    assert set(hrefs) == {(element.tag, element.getattr("href")) for element in elements}


def test_hostile_pages_take_linear_time() -> None:
    scan(b"<a>", 1)  # compile
    chance = random.Random(1)
    bodies = [
        b"<a " * 400_000,
        b"<" * 1_000_000,
        b"<!--" * 300_000,
        b"<a href='" * 120_000,
        b"<script>" + b"</scrip" * 150_000,
        b"<script>" + b"<" + b"a" * 1_000_000,
        b"<nav>" * 250_000,
        b"<a>" * 400_000,
        b"<a" + b"=" * 1_000_000,
        bytes(chance.choices(b"<>a'\"=/! -nv\n", k=1_000_000)),
    ]
    for body in bodies:
        started = time.process_time()
        _, rows, _ = scan(body, 2_000)
        assert time.process_time() - started < 1, body[:20]
        assert len(rows) <= 2_000


@given(st.binary(max_size=300) | st.text("<>a/!-'\"= \nscriptnv", max_size=300).map(str.encode))
def test_rows_lie_within_any_page(data: bytes) -> None:
    _, rows, _ = scan(data, 1000)
    for kind, start, middle, end in rows.tolist():
        assert 0 <= kind < 2 * IN_NAVIGATION
        assert 0 <= start < middle <= end <= len(data)
        assert (data[start], data[middle - 1]) == (ord("<"), ord(">"))
