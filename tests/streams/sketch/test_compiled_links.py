"""The compiled code extracts the same links as plain Python, from ordinary and from hostile pages."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.errors import BadUrl
from streams.sketch.links import LinkExtractor
from streams.urls import url_key
from tests.streams.sketch.plain_links import PlainExtractor

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"keep_anchors": False},
    {"links_max": 5, "anchor_chars_max": 8, "url_bytes_max": 40},
)
EXTRACTORS = [(LinkExtractor(**options), PlainExtractor(**options)) for options in OPTIONS]

HREF_PIECES = [
    "/", "//", ".", "..", "./", "../", "a", "b.html", "#", "?", "x=1", "&", "&amp;", "&#38;", "&#47;", "&copy=", "%2e", "%2E",
    "%zz", ":", "http:", "https://", "HTTPS://", "http:/", "//b.org", "b.org", "B.ORG", "b.org:80", "u@", "xn--a", "1.2.3.4",
    "a..b", "0x7f", "mailto:x", "javascript:", "é", "\u00a0", "\u3000", "\u2028", "\u017f", "\U0001f600", " ", "\t", "\n", "\x1f", "\x0b",
    "\\", "'", "^", "|", "[", "~", "!", "(", ";", "@", "+", "_", "-", "--", "x" * 50, "\0", "a.org", "/guide/page.html", "q=1",
]  # fmt: skip
TEXT_PIECES = [
    "word", "two words", " ", "\n", "\t", "\x0b", "\x1c", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2019", "\u205f", "\u3000", "é", "中文",
    "&amp;", "&", "& ", "&#39;", "&#65;", "&#10;", "&#128;", "&nbsp;", "&NBSP;", "&lt;", "&gt", "&quot;", "&raquo;", "&am", "p;", "<b>",
    "</b>", "<B >", "<span class='x'>", "</span>", "<img alt='An image'>", "<img src=x>", "<i class=icon></i>", "<br>", "<p>", "<bé>",
    "<b", ">", "<", "<!-- c -->", "<strong", "<b-x>", "<a1>", "</", "\0", "x" * 30, "<svg><path d='M0'></path></svg>",
]  # fmt: skip
ATTRIBUTE_PIECES = [
    " ", "\n", "/", " class=m", " class='a b'", ' title="T > U"', " rel=nofollow", ' rel="external NoFollow"', " rel='nofollow,x'",
    " rel=canonical", " rel='Canonical x'", " rel=alternate", " hreflang=de", " hreflang", " hreflang=''", " download", " data-x1=y",
    " @click='f'", " =", " ='x'", " x = y", ' alt="A"', " aria-label='L'", " rel", " rel=''", " é=1", " title=é", " x=a'b",
    ' rel="no&#102;ollow"', ' href="/first"', " HREF='/upper'", " href ='/b'", " href=/plain", " href=", " href", " hrefs=x", " x\0=1", "\x0c", '"',
]  # fmt: skip
URLS = [
    "https://a.org/guide/page.html?q=1", "http://a.org", "https://A.org:8080/é/x y/", "https://u@a.org/x/y", "https:/a.org/x/y",
    "https://192.0.2.7/a/", "https:\\\\a.org\\x\\y", "https:///a.org/b/c", " https://a.org/b/c", "https://a.org/a//b/../c/%2e%2e/d",
    "https://a.org./x/", "HTTP://a.org/b/#c/d", "https://xn--bcher-kva.example/b/",
]  # fmt: skip

hrefs = st.lists(st.sampled_from(HREF_PIECES), max_size=6).map("".join)
quoted_hrefs = st.builds(lambda quote, href: f" href={quote}{href}{quote}", st.sampled_from(["'", '"', ""]), hrefs)
attributes = st.lists(st.sampled_from(ATTRIBUTE_PIECES) | quoted_hrefs, max_size=4).map("".join)
texts = st.lists(st.sampled_from(TEXT_PIECES), max_size=5).map("".join)
tags = st.builds(
    lambda name, before, href, after, text, end: f"<{name}{before}{href}{after}>{text}{end}",
    st.sampled_from(["a", "a", "a", "A", "area", "link", "link", "base"]),
    st.just("") | attributes,
    quoted_hrefs,
    st.just("") | attributes,
    texts,
    st.sampled_from(["</a>", "", "</a\n>", "<nav>", "</nav>"]),
)
pages = st.lists(tags | texts, max_size=6).map("".join)


def assert_same_links(markup: str, url: str) -> None:
    try:
        key = url_key(url)
    except BadUrl:
        return
    data = markup.encode("utf-8", "replace")
    for compiled, plain in EXTRACTORS:
        assert compiled.from_html(data, url, key) == plain.from_html(data, url, key)


@settings(max_examples=400)
@given(pages, st.sampled_from(URLS))
@example("<a href='../../..'>x</a><a href='a/..?b'>y</a><a href='//h/./../x/.'>z</a>", URLS[0])
@example("<a href ='/x'>x</a><a href\n= '/y'>y</a><link rel=canonical href =/z><link rel=danonical href=/d>", URLS[0])
@example("<base href='/b/c'><a href=d>x</a><base href=/e/><a href=f>y</a>", URLS[0])
def test_compiled_code_extracts_the_links_of_plain_python(markup: str, url: str) -> None:
    assert_same_links(markup, url)


@given(st.text("<>a/!-'\"= \nhrefnv#?.&;", max_size=200))
def test_damaged_markup_has_the_same_links(markup: str) -> None:
    assert_same_links(markup, URLS[0])


def test_large_pages_have_the_same_links() -> None:
    chance = random.Random(5)
    for _ in range(20):
        markup = "".join(
            f"{chance.choice(['', '<nav>', '</nav>'])}<a href='{chance.choice(['/x/', '../', 'y/'])}{chance.randrange(400)}'>"
            f"{chance.choice(['One', 'Two', '', '<img alt=i>', 'é' * 90, 'é' * 150])}</a>"
            for _ in range(chance.randrange(1, 1_500))
        )
        assert_same_links(markup, "https://a.org/x/1")


def test_a_page_whose_records_exceed_the_buffer_has_the_same_links() -> None:
    markup = "".join(f"<a href='/{i}/{'x' * 1_500}'>t</a>" for i in range(500))
    assert_same_links(markup, URLS[0])
