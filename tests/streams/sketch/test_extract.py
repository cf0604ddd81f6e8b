"""Pages to text: charsets, types, what counts, what is refused, and pages made to choke a parser."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.model import Extractor
from streams.errors import SettingsError
from streams.page import Page
from streams.sketch import html_guard
from streams.sketch.charset import decode
from streams.sketch.content_kind import ContentKind, detect
from streams.sketch.extract import TITLE_CHARS_MAX, ExtractedText, TextError, extract
from tests.samples import settings as load_settings

POLICY = load_settings().policy


def of(body: bytes | str, mime: str = "text/html", charset: str = "", **options: Any) -> ExtractedText:
    body = body.encode() if isinstance(body, str) else body
    page = Page(url="https://example.org/a/b.html", time=0, body=body, mime=mime, charset=charset)
    return extract(page, detect(page, POLICY) or ContentKind.TEXT, **options)


def refused(body: bytes | str, mime: str = "text/html", **options: Any) -> str:
    with pytest.raises(TextError) as caught:
        of(body, mime, **options)
    assert caught.value.detail
    return caught.value.reason


PAGE = """<!doctype html><html><head><title>  The
 title </title><style>p {color: red}</style><script>var x = "<p>no</p>";</script></head><body>
<nav><a href=/>Home</a></nav><main><h1>Heading</h1><p>One &amp; two</p>three<ul><li>four</ul></main>
<aside>Related</aside><footer>Imprint</footer></body></html>"""


def test_the_body_of_a_page_and_its_title() -> None:
    got = of(PAGE)
    assert got.text.split() == ["Heading", "One", "&", "two", "three", "four"]
    assert got.title == "The title"
    assert got.extractor is Extractor.HTML
    assert got.meta_refresh is None


def test_all_text_is_another_extractor() -> None:
    words = of(PAGE, extractor="resiliparse-all").text.split()
    assert words == ["Home", "Heading", "One", "&", "two", "three", "four", "Related", "Imprint"]
    with pytest.raises(SettingsError, match="unknown extractor 'x'"):
        of(PAGE, extractor="x")


def test_a_page_of_nothing_but_navigation_keeps_it() -> None:
    got = of("<nav>one two</nav>")
    assert (got.text, got.extractor) == ("one two", Extractor.HTML_FALLBACK)


@pytest.mark.parametrize(
    ("text", "encoding", "charset"),
    [
        ("café crème", "latin-1", "iso-8859-1"),
        ("café crème", "utf-8", "iso-8859-1"),  # a wrong declaration loses against valid UTF-8
        ("Привет, мир", "cp1251", "windows-1251"),
        ("日本語のテキスト", "shift_jis", "shift_jis"),
        ("日本語のテキスト", "iso-2022-jp", "iso-2022-jp"),
        ("naïve", "utf-16", ""),  # with a byte order mark
        ("naïve", "utf-16-be", "utf-16be"),
        ("naïve", "utf-8-sig", "latin-1"),
        ("“quoted”", "cp1252", "latin-1"),  # as browsers read it
        ("naïve", "latin-1", "no-such-charset"),
    ],
)
def test_charsets(text: str, encoding: str, charset: str) -> None:
    assert decode(text.encode(encoding), charset) == text
    assert of(f"<p>{text}".encode(encoding), charset=charset).text == text


def test_a_charset_named_in_the_page() -> None:
    body = '<meta charset="windows-1251"><p>Привет'.encode("cp1251")
    assert of(body).text == "Привет"
    old = '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=euc-jp"><p>日本'.encode("euc-jp")
    assert of(old).text == "日本"
    assert (
        of(b'<meta charset="utf-16"><p>plain words').text == "plain words"
    )  # in UTF-16 this tag would be unreadable
    assert of('<meta charset="utf-16be"><p>naïve'.encode()).text == "naïve"
    assert len(decode("Как дела, что нового? Всё хорошо.".encode("koi8-r"))) == 33  # guessed, whatever it is


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=300), st.sampled_from(["", "utf-8", "utf-16", "gbk", "x", "iso-2022-kr", "utf-7", "\0", "hex"])
)
def test_no_bytes_make_it_raise(body: bytes, charset: str) -> None:
    assert isinstance(decode(body, charset), str)
    for mime in ("text/html", "text/plain", ""):
        assert survived(body, mime, charset) in {"text", "no_text", "not_text"}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*"<>/!-='\" ab", "<p", "</", "<b x=", "<nav>", "</nav>", "<script", "<!--", "-->", "&#9", "&amp"]
        ),
        max_size=60,
    )
)
def test_no_markup_makes_either_way_raise(parts: list[str]) -> None:
    source = "".join(parts)
    assert isinstance(html_guard.strip_tags(source, ("nav",)), str)
    assert isinstance(html_guard.find_title(source), str)
    assert survived(source) in {"text", "no_text", "not_text"}


def test_types() -> None:
    assert of("a < b", "text/plain").text == "a < b"
    assert of("a < b", "text/plain").extractor is Extractor.TEXT
    assert of("<html><p>x", "").text == "x"
    assert of("  <?xml version='1.0'?> <!DOCTYPE html><p>x", "application/octet-stream").text == "x"
    assert of("<p>x</p>", "application/xhtml+xml").text == "x"
    assert of("plain words", "").extractor is Extractor.TEXT
    assert refused("%PDF-1.7 ...") == "not_text"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize(
    "start", ["<!doctype html>", "\n<script>x</script>", "<style>x</style>", "<a\nhref=/>", "<b>"]
)
def test_html_without_a_type_is_told_by_its_first_tag(start: str, encoding: str) -> None:
    got = of(f"{start} one<p>naïve</p>".encode(encoding), "")
    assert (got.extractor, got.text.split()) == (Extractor.HTML, ["one", "naïve"])
    assert of(f"<x> {start}".encode(encoding), "").extractor is Extractor.TEXT


def test_what_has_no_text() -> None:
    for body in ("", " \n", "<p> </p>", "<script>x</script>", "\0\0", "<img src=x>"):
        assert refused(body) in {"no_text", "not_text"}
    with pytest.raises(TextError):
        extract(Page(url="https://example.org/", time=0), ContentKind.TEXT)
    with pytest.raises(TextError):
        extract(Page(url="https://example.org/", time=0, text=" "), ContentKind.TEXT)


def test_text_handed_in_is_kept_as_it_is() -> None:
    got = extract(Page(url="https://example.org/", time=0, text="<p> as\0is", title=" t "), ContentKind.TEXT)
    assert (got.text, got.title, got.extractor) == ("<p> as is", "t", Extractor.TEXT)


def test_limits() -> None:
    assert refused(b"x" * 101, page_bytes_max=100) == "too_big"
    assert refused(b"x" * 101, "text/plain", page_bytes_max=100) == "too_big"
    with pytest.raises(TextError):
        extract(Page(url="https://example.org/", time=0, text="x" * 101), ContentKind.TEXT, page_bytes_max=100)
    assert len(of(f"<title>{'t' * 9999}</title>x").title) == TITLE_CHARS_MAX
    assert of("<p>a\0b").text == "a b"


@pytest.mark.parametrize(
    ("markup", "target"),
    [
        ('<meta http-equiv="refresh" content="0; url=/new/">', "https://example.org/new/"),
        ("<META HTTP-EQUIV=Refresh CONTENT=\"5;URL='../c.html'\">", "https://example.org/c.html"),
        ("<meta http-equiv=refresh content='0;https://other.example/x'>", "https://other.example/x"),
        ("<meta http-equiv=refresh content='300; url=/new/'>", None),  # a page that reloads itself now and then
        ("<meta http-equiv=refresh content='0'>", None),
        ("<meta http-equiv=refresh content='0; url=b.html'>", None),  # itself
        ("<meta http-equiv=refresh content='3; url=https://example.org/a/b.html#top'>", None),
        ("<meta http-equiv=refresh content='3; url=HTTP://Example.org:80/a/./b.html'>", None),
        *((f"<meta http-equiv=refresh content='{seconds}'>", None) for seconds in ("60", "10.5", "30;", "60 ,", "")),
        ("<meta http-equiv=refresh content='60;url=/new/'>", None),
        ("<meta http-equiv=refresh content='000000000060; url=/new/'>", None),
        ("<meta http-equiv=refresh content='5x; url=/new/'>", None),
        ("<meta http-equiv=refresh content='.5, /new/'>", "https://example.org/new/"),
        ("<meta http-equiv=refresh content='5 /new/'>", "https://example.org/new/"),
        ("<meta http-equiv=refresh content='5; url'>", "https://example.org/a/url"),
        ("<meta http-equiv=refresh content='0; url=\"/new/\" and more'>", "https://example.org/new/"),
        (f"<meta http-equiv=refresh content='0; url=/{'é' * 30_000}'>", None),  # longer than any URL that is kept
        ("<meta http-equiv=refresh content='0; url=javascript:x()'>", None),
        ("<meta http-equiv=refresh content='0; url=http://[bad'>", None),
        ("<noscript><meta http-equiv=refresh content='0; url=/nojs'></noscript>", None),
        ("<p>how to refresh a page</p>", None),
    ],
)
def test_meta_refresh(markup: str, target: str | None) -> None:
    assert of(f"<html><head>{markup}</head><body>text").meta_refresh == target


@pytest.mark.parametrize("before", [0, 30_000])
@pytest.mark.parametrize("tag", ["<META HTTP-EQUIV='Refresh'", "<meta name=a><meta data-x='>>' http-equiv=REFRESH"])
def test_a_refresh_is_found_in_a_large_page_too(before: int, tag: str) -> None:
    large = f"<html><head><style>{'x' * before}</style>{tag} content='0; url=/new/'></head><body>{'<p>text' * 9_000}"
    assert of(large).meta_refresh == "https://example.org/new/"
    assert of(large.replace(tag, "<p")).meta_refresh is None


def test_a_refresh_needs_no_text() -> None:
    assert of("<meta http-equiv=refresh content='0; url=/x'>").meta_refresh == "https://example.org/x"


# Each of these made the parser slow or big without the bounds in `streams.sketch.html_guard`; or might have.
HOSTILE = {
    "a million nested tags": "<div>" * 1_000_000 + "hello",
    "formatting reopened in each paragraph": "".join(f"<b id={i}>" for i in range(1500)) + "<p>x</p>" * 1500,
    "formatting reopened, just small": "<p>" + "".join(f"<b id={i}>" for i in range(750)) + "<p>x" * 700,
    "bare formatting reopened": "<b><b><b><i><i><i><u><u><u><s><s><s><em><em><em><tt><tt><tt>" + "<p>x" * 29_000,
    "a hundred thousand attributes": "<div " + " ".join(f"a{i}=1" for i in range(100_000)) + ">hello",
    "attributes without spaces": "<div " + "".join(f"a{i}=''" for i in range(100_000)) + ">hello",
    "attributes parted by slashes": "<div " + "/".join(f"a{i}" for i in range(100_000)) + ">hello",
    "attributes handed to <html>": "".join(f"<html a{i}=1>" for i in range(20_000)) + "hello",
    "end tags that match nothing": "<b></i>" * 100_000 + "hello",
    "deep, just within the bound": "<span>" * 14_000 + "</i>" * 14_000 + "hello",
    "options, just within the bound": "<div>" * 14_000 + "<option>" * 14_000 + "hello",
    "nested lists": "<ul><li>x" * 40_000,
    "paragraphs": "<p>" * 2_000_000 + "x",
    "unclosed scripts": "hello" + "<script" * 1_000_000,
    "unclosed comments": "hello" + "<!--" * 2_000_000,
    "scripts": "<script></script>" * 300_000 + "hello",
    "half a tag": "hello" + "<a" * 4_000_000,
    "ampersands": "&" * 8_000_000,
    "a number without end": "&#" + "1" * 5_000_000 + ";hello",
    "one word": "<p>" + "x" * 8_000_000,
    "metas": "refresh" + "<meta http-equiv=refresh content='99;url=x'>" * 29_000 + "hello",
}


def survived(source: bytes | str, mime: str = "text/html", charset: str = "") -> str:
    """Return "text", or the reason of the TextError."""
    try:
        got = of(source, mime, charset)
    except TextError as error:
        return error.reason
    assert got.text
    assert "\0" not in got.text
    return "text"


def seconds(source: str) -> float:
    """What a page takes of this process."""
    started = time.process_time()
    assert survived(source)
    return time.process_time() - started


@pytest.fixture(scope="module")
def ordinary() -> float:
    """What a page of 5 MB takes that means no harm; the second time, when all that is compiled is."""
    return [seconds("<p>some words of text</p>\n" * 200_000) for _ in range(2)][1]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_markup_takes_bounded_time(name: str, ordinary: float) -> None:
    """In times of an ordinary page, since seconds mean nothing between machines.

    Not in times of half the same page: within its bounds markup may take the square of its size.
    """
    assert seconds(HOSTILE[name]) < 15 * ordinary  # five times where it is worst


def test_hostile_markup_takes_bounded_memory() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "from tests.streams.sketch.test_extract import HOSTILE, survived\n"
        "for source in HOSTILE.values(): survived(source)\n"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 1500 << 10  # KiB; not ru_maxrss, which a child process inherits from its parent


def test_sweeping_tags_gives_the_text_that_parsing_gives() -> None:
    assert html_guard.strip_tags(PAGE, ("nav", "footer", "aside")).split() == of(PAGE).text.split()
    assert (
        html_guard.strip_tags("a<b>b</b>c<p>d<!-- <p>e --><br>f<nav>x<nav>y</nav>z</nav>g", ("nav",))
        == "abc\nd\nf\ng"
    )
    assert html_guard.find_title(PAGE).split() == ["The", "title"]
    assert not html_guard.estimate_parsing(PAGE * 30).too_expensive
