"""Test that no arrangement of tags, comments and attributes makes the parser slower than in proportion to the page."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from streams.sketch import html_guard
from streams.sketch.content_kind import ContentKind
from streams.sketch.extract import TextError, extract_body
from streams.sketch.html_guard import ParserLimits

# All elements for which the HTML standard defines a step in an insertion mode ("13.2.6 Tree construction").
ELEMENTS = """
    html head body frameset frame base basefont bgsound link meta title noframes style noscript script template address
    article aside blockquote center details dialog dir div dl fieldset figcaption figure footer header hgroup main menu
    nav ol p search section summary ul h1 h6 pre listing form li dd dt plaintext button a b big code em font i s small
    strike strong tt u nobr applet marquee object table area br embed img keygen wbr input param source track hr image
    textarea xmp iframe noembed select selectedcontent optgroup option rb rtc rp rt ruby math svg caption col colgroup
    tbody tfoot thead td th tr foreignobject desc annotation-xml mi mtext mglyph malignmark sarcasm span
""".split()  # noqa: SIM905 - a list would take a hundred lines
FILLERS = [
    "",
    "x",
    " ",
    "<!---->",
    "x<!---->",
    "<?>x",
    "&amp;<!>",
    "<![CDATA[x]]>",
    "</p>",
    "</i>",
    "<!doctype html>",
]

# Within its limits, the work of the parser may grow with the square of the page. Low limits make this part small.
LIMITS = ParserLimits(
    tags_max=1_000,
    attributes_max=20_000,
    other_markup_max=100_000,
    reopened_max=20_000,
    visits_max=10_000_000,
    option_visits_max=2_000_000,
    attribute_comparisons_max=4_000_000,
    name_comparisons_max=20_000_000,
    indent_chars_max=1_000_000,
)
CHARS = 150_000
GROWTH_MAX = 8.0  # of the time, if the page grows fourfold; 16 if the time is quadratic
SECONDS_MIN = 0.004  # shorter times are not compared, because the clock is too coarse
SUITE, LONG = 250, 5_000

Shape = Callable[[int], str]


def seconds(markup: str, limits: ParserLimits) -> float:
    """Return the CPU seconds in which the text of a page is extracted: the shortest of two runs."""
    body, times = markup.encode(), []
    for _ in range(2):
        started = time.process_time()
        with suppress(TextError):  # many of the pages have no text
            extract_body(body, ContentKind.HTML, page_bytes_max=100 << 20, parser_limits=limits)
        times.append(time.process_time() - started)
    return min(times)


def growth(shape: Shape, chars: int = CHARS) -> float:
    """Return how much longer a page takes than a quarter of it."""
    small, large = shape(chars), shape(4 * chars)
    assert 3 < len(large) / len(small) < 5
    return seconds(large, LIMITS) / max(SECONDS_MIN, seconds(small, LIMITS))


def repeat(piece: str, chars: int) -> str:
    return piece * max(1, chars // len(piece))


def random_tag(rng: random.Random) -> str:
    """Return a start tag, an end tag or an element, sometimes with attributes."""
    name = rng.choice(ELEMENTS)
    attributes = rng.choice(["", "", "", " id=x", " a b c", " selected"])
    return rng.choice([f"<{name}{attributes}>", f"<{name}{attributes}>", f"</{name}>", f"<{name}></{name}>"])


def random_shape(seed: int) -> Shape:
    """Return a page of repeated parts. Some have a fixed length, and the others grow with the page."""
    rng = random.Random(seed)
    parts = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        piece = "".join(random_tag(rng) for _ in range(rng.choice([1, 1, 2]))) + rng.choice(FILLERS)
        parts.append((piece, rng.choice([0, 3_000, None])))
    parts.append((rng.choice(FILLERS[1:] + [random_tag(rng) for _ in FILLERS]), None))
    growing = sum(length is None for _, length in parts)

    def shape(chars: int) -> str:
        return "".join(repeat(piece, chars // growing if length is None else length) for piece, length in parts)

    return shape


def numbered(piece: str, length: int) -> Shape:
    """Return pages in which each copy of a piece has a different number, of `length` characters in total."""
    return lambda chars: "".join(piece.replace("#", f"{n:x}") for n in range(chars // length))


SHAPES: dict[str, Shape] = {
    "options": lambda chars: "<select>" + repeat("<option>x", chars),
    "comments before options": lambda chars: (
        "<select>" + repeat("<!---->", chars // 2) + repeat("<option>", chars // 2)
    ),
    "options in an open select": lambda chars: repeat("<select><marquee></select><option>", chars),
    "plain text": lambda chars: repeat("<plaintext>", chars),
    "text in a table below open elements": lambda chars: (
        repeat("<div>", chars // 4) + "<table>" + repeat("x<!---->", chars)
    ),
    "attribute names": numbered("<p a#=1>", 11),
    "attribute names behind quotes": numbered("<p x='>'a#=''b#=\">\">", 26),
    "attribute names in one tag": lambda chars: "<p " + numbered("a# ", 7)(chars) + ">",
    "attribute names with `<`": lambda chars: "<p " + numbered("a#<=1 ", 10)(chars) + ">",
    "attributes reopened with their elements": lambda chars: (
        "<p>" + "".join(f"<b id={n} {'a b c d e ' * 20}>" for n in range(5)) + repeat("<p>x", chars)
    ),
    "attributes of <html>": numbered("<html a#>", 12),
    "comments": lambda chars: repeat("x<!---->", chars),
}


@pytest.fixture(scope="module", autouse=True)
def _compile() -> None:
    seconds("<p>some words of text</p>\n" * 10_000, LIMITS)


@pytest.mark.parametrize("name", SHAPES)
def test_known_shapes_take_linear_time(name: str) -> None:
    assert growth(SHAPES[name]) < GROWTH_MAX


@pytest.mark.parametrize("start", range(0, SUITE, 10))
def test_random_shapes_take_linear_time(start: int) -> None:
    for seed in range(start, start + 10):
        shape = random_shape(seed)
        if growth(shape, CHARS // 4) >= GROWTH_MAX:  # perhaps another process was in the way; a second look tells
            assert growth(shape) < GROWTH_MAX, (seed, shape(200))


@pytest.mark.long
@pytest.mark.parametrize("start", range(SUITE, LONG, 50))
def test_many_more_random_shapes_take_linear_time(start: int) -> None:
    for seed in range(start, start + 50):
        shape = random_shape(seed)
        assert growth(shape, CHARS // 4) < GROWTH_MAX or growth(shape) < GROWTH_MAX, (seed, shape(200))


@pytest.mark.parametrize("name", SHAPES)
def test_known_shapes_are_stripped_beyond_the_default_limits(name: str) -> None:
    assert html_guard.estimate_parsing(SHAPES[name](8_000_000)).too_expensive


@pytest.mark.parametrize(
    "page",
    [
        "<p class='a b' id=x>some words</p>\n" * 10_000,
        "<p>" + "words of a long text, " * 400_000,
        "<select>" + "<option value=1>one</option>" * 4_000 + "</select>",
        "<script>" + 'if (n<count && c>d) { x = "a b c"; }\n' * 20_000 + "</script>",
        "<a href='/a/b/c?d=e' title='some words'>x</a>\n" * 14_000,
    ],
)
def test_large_ordinary_pages_are_parsed(page: str) -> None:
    assert not html_guard.estimate_parsing(page).too_expensive


def test_the_text_after_plaintext_is_not_markup() -> None:
    assert html_guard.strip_tags("<p>a<plaintext><b>c</plaintext>") == "a\n<b>c</plaintext>"


PEAK_OF_A_PAGE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from tests.streams.sketch.test_html_guard import MEMORY_HUNGRY, peak_kib, seconds
from streams.sketch.html_guard import DEFAULT_LIMITS
seconds("<p>some words of text</p>" * 10_000, DEFAULT_LIMITS)
before = peak_kib()
seconds(MEMORY_HUNGRY[sys.argv[1]](), DEFAULT_LIMITS)
print(peak_kib() - before)
"""
NAMES = " ".join(f"a{n}" for n in range(300))
MEMORY_HUNGRY: dict[str, Callable[[], str]] = {
    "29,000 tags with 300 attributes": lambda: f"<p {NAMES}>x" * 29_000,
    "29,000 tags with 81 attributes": lambda: f"<p {NAMES[:310]}>x" * 29_000,
    "attributes reopened": lambda: "<p>" + "".join(f"<b id={n} {NAMES}>" for n in range(30)) + "<p>x" * 29_000,
    "comments": lambda: "x<!---->" * 1_200_000,
}


def peak_kib() -> int:
    """Return the largest memory use of this process; not ru_maxrss, which a child inherits from its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


@pytest.mark.parametrize("name", MEMORY_HUNGRY)
def test_memory_is_bounded(name: str) -> None:
    command = [sys.executable, "-c", PEAK_OF_A_PAGE, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < 300 << 10
