"""Links are resolved, described and cut into chunks; caches of earlier pages never change the result."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from state.codecs import link_chunk
from state.codecs.url_key import url_of
from state.model import Link, LinkKind
from streams.page import SuppliedLink
from streams.sketch.link_chunker import LINKS_PER_CHUNK
from streams.sketch.links import LinkExtractor, LinkPayload
from streams.urls import url_key
from tests.streams.sketch.plain_links import PlainExtractor

URL = "https://a.org/guide/page.html?q=1"


def payload(markup: str, url: str = URL, **options: Any) -> LinkPayload | None:
    """Return the links of a page, after a check that plain Python extracts the same links."""
    data, key = markup.encode("utf-8", "replace"), url_key(url)
    result = LinkExtractor(**options).from_html(data, url, key)
    assert result == PlainExtractor(**options).from_html(data, url, key)
    return result


def decoded(payload: LinkPayload | None) -> list[Link]:
    return [link for chunk in payload.chunks for link in link_chunk.decode(chunk)] if payload else []


def links(markup: str, url: str = URL, **options: Any) -> list[Link]:
    return decoded(payload(markup, url, **options))


def targets(markup: str, url: str = URL) -> list[str]:
    return [url_of(link.target, https=link.https) for link in links(markup, url)]


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("b.html", "https://a.org/guide/b.html"),
        ("./b.html#part", "https://a.org/guide/b.html"),
        ("../b/", "https://a.org/b/"),
        ("../../../b", "https://a.org/b"),
        ("/b", "https://a.org/b"),
        ("//b.org/c", "https://b.org/c"),
        ("http://b.org", "http://b.org/"),
        ("HTTP://B.org/C", "http://b.org/C"),
        ("?q=2", "https://a.org/guide/page.html?q=2"),
        ("login?next=http://b.org/", "https://a.org/guide/login?next=http://b.org/"),
        (" b.html\n", "https://a.org/guide/b.html"),
        ("a b&amp;c", "https://a.org/guide/a%20b&c"),
        ("/Überblick", "https://a.org/%C3%9Cberblick"),
        ("", None),
        ("#part", None),
        ("page.html?q=1#part", None),  # the page itself
        ("mailto:x@a.org", None),
        ("javascript:void(0)", None),
        ("data:text/html," + "x" * 5000, None),
        ("http://", None),
        ("http://[::1", None),
        ("//[", None),
    ],
)
def test_references_are_resolved(href: str, target: str | None) -> None:
    assert targets(f'<a href="{href}">t</a>') == ([target] if target else [])


@pytest.mark.parametrize(
    ("url", "target"),
    [("https://a.org", "https://a.org/b"), ("https://a.org?x=/y/", "https://a.org/b"), ("https://a.org/c/d#/e/", "https://a.org/c/b")],
)  # fmt: skip
def test_the_folder_of_a_page_precedes_relative_references(url: str, target: str) -> None:
    assert targets('<a href="b">t</a>', url) == [target]


@pytest.mark.parametrize(
    ("base", "target"),
    [
        ('<base href="/root/">', "https://a.org/root/b"),
        ('<base href="https://b.org/c/d">', "https://b.org/c/b"),
        ('<base href="https://b.org">', "https://b.org/b"),
        ('<base target="_blank">', "https://a.org/guide/b"),
        ('<base href="">', "https://a.org/guide/b"),
        ('<base href="/one/"><base href="/two/">', "https://a.org/one/b"),
        ('<base target="_blank"><base href="/two/">', "https://a.org/two/b"),
    ],
)
def test_a_base_replaces_the_url_of_the_page(base: str, target: str) -> None:
    assert targets(f"{base}<a href=b>t</a>") == [target]


@pytest.mark.parametrize(
    ("markup", "anchor"),
    [
        ("<a href=b>Data  <b>manage</b>ment\n</a>", "Data management"),
        ("<a href=b><div>One</div><div>Two</div></a>", "One Two"),
        ("<a href=b>R&amp;D &#233;</a>", "R&D é"),
        ('<a href=b><img src=x alt="The logo"></a>', "The logo"),
        ("<a href=b aria-label='Next page'><svg></svg></a>", "Next page"),
        ('<a href=b data-title="no"></a>', ""),
        ("<a href=b>open <p>and unclosed", "open and unclosed"),
        ("<a href=b>one<a href=/c>", "one"),
        ('<area href=b alt="A region">', "A region"),
    ],
)
def test_the_anchor_is_the_text_of_a_link_or_what_stands_for_it(markup: str, anchor: str) -> None:
    link = links(markup)[0]
    assert (link.anchor, link.kind) == (anchor, LinkKind.ANCHOR)


@pytest.mark.parametrize(
    ("tag", "target"),
    [
        ("<a data-href=/no href=/b>", "https://a.org/b"),
        ('<a title="see href=/no" href="/b">', "https://a.org/b"),
        ("<a class='x' HREF = '/b' href='/no'>", "https://a.org/b"),
        ("<a xhref=/no disabled href=/b>", "https://a.org/b"),
        ("<a/href=/b>", "https://a.org/b"),
        ('<a href="/b"class="x">', "https://a.org/b"),
    ],
)
def test_only_the_attribute_href_counts(tag: str, target: str) -> None:
    assert targets(f"{tag}t</a>") == [target]


def test_kinds_and_flags() -> None:
    markup = """
        <link rel="canonical" href="/c"><link rel="Alternate" hreflang="de-AT" href="/de/"><link rel=stylesheet href=/s>
        <link rel="alternate" type="application/rss+xml" href="/feed">
        <nav><a href=/n rel="external NoFollow">n</a></nav><a href=/m title=nofollow>m</a>"""
    extracted = [(link.kind, link.target, link.anchor, link.nofollow, link.navigation) for link in links(markup)]
    assert extracted == [
        (LinkKind.CANONICAL, b"org,a)/c", "", False, False),
        (LinkKind.ALTERNATE, b"org,a)/de/", "de-at", False, False),
        (LinkKind.ANCHOR, b"org,a)/n", "n", True, True),
        (LinkKind.ANCHOR, b"org,a)/m", "m", False, False),
    ]


def test_redirects_of_a_page_are_links() -> None:
    markup = "<script>window.location.replace('../new/')</script>"
    key, extractor = url_key(URL), LinkExtractor()
    (script,) = decoded(extractor.from_html(markup.encode(), URL, key, is_short=True))
    assert (script.kind, script.target) == (LinkKind.SCRIPT, b"org,a)/new/")
    assert extractor.from_html(markup.encode(), URL, key) is None  # it shows a text
    (refresh,) = decoded(extractor.from_html(b"", URL, key, "https://b.org/x"))
    assert (refresh.kind, refresh.target, refresh.https) == (LinkKind.REFRESH, b"org,b)/x", True)


def test_links_that_a_crawler_supplies_are_treated_alike() -> None:
    supplied = [
        SuppliedLink("../b", "One"),
        SuppliedLink("mailto:x@a.org"),
        SuppliedLink(""),
        SuppliedLink(" /c ", "\ud800", nofollow=True),
        SuppliedLink("https://a.org/" + "x" * 3000),
        SuppliedLink("/beyond"),
    ]
    result = LinkExtractor(links_max=5).from_links(supplied, URL, url_key(URL))
    assert [(link.target, link.anchor, link.nofollow) for link in decoded(result)] == [
        (b"org,a)/b", "One", False),
        (b"org,a)/c", "?", True),
    ]
    assert result is not None
    assert result.dropped == 2
    assert LinkExtractor().from_links([], URL, url_key(URL)) is None


def test_limits_are_counted() -> None:
    markup = "<a href=/1>12345</a><a href=/2>123456</a><a href=/" + "x" * 100 + "><a href=/4>"
    result = payload(markup, anchor_chars_max=5, links_max=3, url_bytes_max=60)
    assert result is not None
    assert (result.dropped, result.anchors_cut) == (2, 1)
    assert [link.anchor for link in decoded(result)] == ["12345", "12345"]
    assert [link.anchor for link in links(markup, keep_anchors=False)] == ["", "", "", ""]


def generated_page(chance: random.Random, site: int) -> tuple[str, str]:
    """Return a page of a site with a menu, and its URL."""
    url = f"https://s{site}.org/" + "".join(f"{chance.choice('ab')}/" for _ in range(chance.randrange(3)))
    menu = "".join(f"<li><a href='/menu/{i}' class=m>Menu {i}</a>" for i in range(30))
    body = "".join(
        f"<p><a href='{chance.choice(['x', '../x', '/x', '?x', 'http://o.org/x', 'x?u=http://x', '#'])}{i}'>{chance.choice('abc')}</a>"
        for i in range(chance.randrange(40))
    )
    base = chance.choice(["", "", f"<base href='/{chance.choice('ab')}/'>", "<base target=x>"])
    return f"{base}<nav>{menu}</nav>{body}", url


def test_a_cache_never_changes_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.sketch.links._TAG_CACHE_BYTES", 20_000)
    chance = random.Random(7)
    pages = [generated_page(chance, i % 3) for i in range(200)]
    alone = [payload(markup, url) for markup, url in pages]
    shared = LinkExtractor()
    for _ in range(3):
        order = chance.sample(range(len(pages)), len(pages))
        for i in order:
            markup, url = pages[i]
            assert shared.from_html(markup.encode(), url, url_key(url)) == alone[i]


def test_a_reference_with_an_empty_host_is_not_cached_for_a_site() -> None:
    extractor = LinkExtractor()
    for url in ("https://a.org/x/", "https://a.org/y/"):
        (link,) = decoded(extractor.from_html(b"<a href=//>t</a>", url, b"org,a)/"))
        assert link.target == url_key(url)


def test_pages_share_the_chunks_of_their_navigation() -> None:
    chance = random.Random(3)
    first, second = (payload(*generated_page(chance, 1)) for _ in range(2))
    assert first is not None
    assert second is not None
    menu = [chunk for chunk in first.chunks if link_chunk.decode(chunk)[0].navigation]
    assert menu
    assert set(menu) <= set(second.chunks)


def test_chunks_are_found_again_behind_other_links() -> None:
    run = "".join(f"<a href=/{i}>{i}</a>" for i in range(50 * LINKS_PER_CHUNK))
    one, other = payload(run), payload("<a href=/new>new</a>" + run[2000:])
    assert one is not None
    assert other is not None
    assert len(set(one.chunks) & set(other.chunks)) > len(other.chunks) - 4
    assert max(len(link_chunk.decode(chunk)) for chunk in one.chunks) <= 64


HOSTILE = [
    "<a href=x>" + "<b " * 2_000 + ">",
    "<a href=x " + "a" * 200_000 + ">",
    "<a " + "b='" * 60_000 + "'>",
    '<a alt="' * 20_000 + '">',
    "<a href=x>" + "&amp;" * 40_000,
    "<a href=" + "x" * 200_000 + ">",
    "<a href=x>" + "alt=" * 1_000 + "</a>",
    "<base href='" + "../" * 60_000 + "'><a href=x>",
    "<a href='" + "../" * 600 + "x'>t",
    "<a href=x" + " a" * 100_000 + ">",
    "<a href=x" + " " * 200_000 + ">",
    "<a href=x>" + "<" * 4_000 + "</a>",
]


@pytest.mark.parametrize("unit", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_pages_take_little_time(unit: str) -> None:
    markup = unit * (4_000_000 // len(unit))
    links("<a href=/x>t</a>")  # compile
    started = time.process_time()
    payload(markup)
    assert time.process_time() - started < 4


def test_the_caches_of_hostile_pages_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    extractor = LinkExtractor()
    for i in range(50):
        url = f"https://a.org/{i}/"
        extractor.from_html(f"<a href={i} title='{'x' * 100_000}'>".encode(), url, url_key(url))
        extractor.from_html(b"<a href=%2e>", f"https://a.org/{i}/x", url_key(url))
    cached = [markup for caches in extractor._tags.values() for tags in caches for markup in tags]
    assert set(cached) == {b"<a href=%2e>"}
    assert extractor._cached_bytes > 50 * 400  # the caches themselves count
    monkeypatch.setattr("streams.sketch.links._TAG_CACHE_BYTES", 10_000)
    extractor.from_html(b"<a href=%2e>", URL, url_key(URL))
    assert not extractor._tags
