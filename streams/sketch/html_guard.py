"""Detect HTML that would overload the parser, and strip its tags instead of parsing it.

The HTML standard requires quadratic time or worse for some pages. In lexbor, Resiliparse's parser, 27 kB of
`<b id=1><b id=2>...` before `<p>x<p>x...` became 2.2 million elements and 860 MB, because each paragraph reopens
every <b>. 700 kB of `<b></i>` took 17 s, because each end tag visits all open elements. A tag with 100,000 attributes
took more than 20 s. Therefore, tags and attributes are counted first, which gives an upper bound on the work. If a
page exceeds a limit, its tags are stripped in linear time instead of parsing it; the text is nearly the same.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

TAGS_MAX = 30_000  # some tags make the parser visit all open elements; this many take about a second
REOPENED_MAX = 1_000_000  # each copy of an unclosed formatting element takes about 400 bytes
ATTRIBUTE_COMPARISONS_MAX = 200_000_000  # each new attribute is compared with the tag's other attributes
ROOTS_MAX = 100  # the parser adds the attributes of each further <html> or <body> tag to the first one
META_CHARS_MAX = 8_192  # a longer <meta> tag is read only up to here
INDENT_CHARS_MAX = 100_000_000  # a line in nested lists is indented by two spaces per level

_SMALL_CHARS, _SMALL_TAGS = 20_000, 1_500  # a page within these two limits is within all limits above

_MARKUP_PIECE = re.compile(r"<(?:!--|(?:[!?]|(/?)([a-zA-Z][^\s/>]*))[^>]*>)")
_ELEMENTS_WITHOUT_TEXT = frozenset(
    ["script", "style", "title", "template", "noscript", "textarea", "select", "iframe", "noembed", "noframes", "xmp"]
)
_INLINE_ELEMENTS = frozenset(
    """a abbr b bdi bdo big cite code data del dfn em font i ins kbd mark nobr q s samp small span strike strong
    sub sup time tt u var""".split()  # noqa: SIM905 - a list would take one line per element
)
_HUGE_CHARACTER_REFERENCE = re.compile(r"&#[0-9]{8,}")
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{0,2000})", re.IGNORECASE)


class ParsingEstimate(NamedTuple):
    """Whether a page is too expensive to parse, and where its <meta> tags end."""

    too_expensive: bool  # parsing can take more than a second or several hundred megabytes
    meta_chars: int  # the first `meta_chars` characters contain all relevant <meta> tags


def estimate_parsing(markup: str) -> ParsingEstimate:
    """Estimate the work of parsing a page."""
    if len(markup) <= _SMALL_CHARS and markup.count("<") <= _SMALL_TAGS:
        return ParsingEstimate(False, len(markup))
    from streams.sketch.html_counts import count_markup

    tags, formatting, attribute_comparisons, roots, lists, meta_end = count_markup(markup.encode("utf-8", "replace"))
    too_expensive = (
        tags > TAGS_MAX
        or tags * formatting > REOPENED_MAX
        or attribute_comparisons > ATTRIBUTE_COMPARISONS_MAX
        or roots > ROOTS_MAX
        or 2 * lists * tags > INDENT_CHARS_MAX
    )
    # `meta_end` counts bytes, so it is at least the number of characters.
    return ParsingEstimate(too_expensive, meta_end + META_CHARS_MAX if meta_end else 0)


def _markup_pieces(markup: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield (kind, name, start, end) of each tag, comment and declaration; `kind` is "start", "end" or "other".

    Names are in lower case. The start tag of an element without visible text, such as <script>, includes the content.
    """
    last_end = markup.rfind(">") + 1  # every tag that starts before this `>` is closed, so the search stays linear
    end = 0
    while (piece := _MARKUP_PIECE.search(markup, end, last_end)) is not None:
        start, end = piece.span()
        if piece[0] == "<!--":
            close = markup.find("-->", end)
            end = close + 3 if close >= 0 else len(markup)
        if not piece[2]:
            yield "other", "", start, end
            continue
        name = piece[2].lower()
        if name in _ELEMENTS_WITHOUT_TEXT and not piece[1]:
            end_tag = re.compile("</" + name, re.IGNORECASE).search(markup, end)
            end = end_tag.start() if end_tag else len(markup)
        yield "end" if piece[1] else "start", name, start, end


def strip_tags(markup: str, skipped_tags: Collection[str] = ()) -> str:
    """Return the text between tags, without the content of elements named in `skipped_tags`, in linear time.

    If an attribute contains a `>`, the rest of the tag becomes text. This is rare and harmless.
    """
    parts: list[str] = []
    text_start, skipped_name, depth = 0, "", 0
    for kind, name, start, end in _markup_pieces(markup):
        if not skipped_name:
            parts.append(markup[text_start:start])
            if name in skipped_tags and kind == "start":
                skipped_name, depth = name, 1
        elif name == skipped_name:
            depth += 1 if kind == "start" else -1
            skipped_name = skipped_name if depth else ""
        if name and name not in _INLINE_ELEMENTS:
            parts.append("\n")
        text_start = end
    if not skipped_name:
        parts.append(markup[text_start:])
    lines = html.unescape(_HUGE_CHARACTER_REFERENCE.sub(" ", "".join(parts))).split("\n")
    return "\n".join(stripped for line in lines if (stripped := " ".join(line.split())))


def find_title(markup: str) -> str:
    """Return the title, or an empty string, without parsing the page."""
    match = _TITLE.search(markup)
    return html.unescape(_HUGE_CHARACTER_REFERENCE.sub(" ", match[1])) if match else ""
