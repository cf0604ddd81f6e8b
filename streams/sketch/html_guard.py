"""Detect HTML that would overload the parser, and strip its tags instead of parsing it.

The HTML standard requires quadratic time or worse for some pages. In lexbor, Resiliparse's parser, 27 kB of
`<b id=1><b id=2>...` before `<p>x<p>x...` became 2.2 million elements and 860 MB, because each paragraph reopens
every <b>. 700 kB of `<b></i>` took 17 s, because each end tag visits all open elements. A tag with 100,000 attributes
took more than 20 s. Therefore, counts that no markup can evade give an upper bound on the work before parsing starts.
If a page exceeds a limit, its tags are stripped in linear time instead; the text is nearly the same.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

TAGS_MAX = 30_000  # some tags make the parser visit all open elements; this many take about a second
REOPENED_MAX = 1_000_000  # each copy of an unclosed formatting element takes about 400 bytes
ATTRIBUTE_STEPS_MAX = 200_000_000  # each new attribute is compared with the tag's other attributes
ROOTS_MAX = 100  # the parser adds the attributes of each further <html> or <body> to the first
META_CHARS_MAX = 8_192  # only this part of a <meta> tag is read
INDENT_CHARS_MAX = 100_000_000  # a line in nested lists is indented by two spaces per level

_SMALL_CHARS, _SMALL_TAGS = 20_000, 1_500  # a page within these two limits is within all limits above

_TAG = re.compile(r"<(?:!--|(?:[!?]|(/?)([a-zA-Z][^\s/>]*))[^>]*>)")
_NO_TEXT = frozenset(
    ["script", "style", "title", "template", "noscript", "textarea", "select", "iframe", "noembed", "noframes", "xmp"]
)
_INLINE = frozenset(
    """a abbr b bdi bdo big cite code data del dfn em font i ins kbd mark nobr q s samp small span strike strong
    sub sup time tt u var""".split()  # noqa: SIM905 - a list would take one line per element
)
_HUGE_CHARACTER_REFERENCE = re.compile(r"&#[0-9]{8,}")
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{0,2000})", re.IGNORECASE)


class ParsingEstimate(NamedTuple):
    """An estimate of the work of parsing a page."""

    too_expensive: bool  # parsing can take more than a second or several hundred megabytes
    meta_chars: int  # the first `meta_chars` characters contain all relevant <meta> tags


def estimate_parsing(markup: str) -> ParsingEstimate:
    """Estimate the work of parsing a page."""
    if len(markup) <= _SMALL_CHARS and markup.count("<") <= _SMALL_TAGS:
        return ParsingEstimate(False, len(markup))
    from streams.sketch.html_counts import count_markup

    tags, formatting, attribute_steps, roots, lists, meta_end = count_markup(markup.encode("utf-8", "replace"))
    too_expensive = (
        tags > TAGS_MAX
        or tags * formatting > REOPENED_MAX
        or attribute_steps > ATTRIBUTE_STEPS_MAX
        or roots > ROOTS_MAX
        or 2 * lists * tags > INDENT_CHARS_MAX
    )
    # `meta_end` counts bytes, so it is at least the number of characters.
    return ParsingEstimate(too_expensive, meta_end + META_CHARS_MAX if meta_end else 0)


def _tokens(markup: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield (kind, name, start, end) of each tag, comment and declaration; `kind` is "start", "end" or "other".

    Names are in lower case. The start tag of an element without visible text, such as <script>, includes the content.
    """
    last_end = markup.rfind(">") + 1  # every tag that starts before this `>` is closed, so the search stays linear
    end = 0
    while (tag := _TAG.search(markup, end, last_end)) is not None:
        start, end = tag.span()
        if tag[0] == "<!--":
            close = markup.find("-->", end)
            end = close + 3 if close >= 0 else len(markup)
        if not tag[2]:
            yield "other", "", start, end
            continue
        name = tag[2].lower()
        if name in _NO_TEXT and not tag[1]:
            end_tag = re.compile("</" + name, re.IGNORECASE).search(markup, end)
            end = end_tag.start() if end_tag else len(markup)
        yield "end" if tag[1] else "start", name, start, end


def strip_tags(markup: str, skipped: Collection[str] = ()) -> str:
    """Return the text between tags, without the content of `skipped` elements, in linear time.

    If an attribute contains a `>`, the rest of the tag becomes text. This is rare and harmless.
    """
    parts: list[str] = []
    text_start, skipping, depth = 0, "", 0
    for kind, name, start, end in _tokens(markup):
        if not skipping:
            parts.append(markup[text_start:start])
            if name in skipped and kind == "start":
                skipping, depth = name, 1
        elif name == skipping:
            depth += 1 if kind == "start" else -1
            skipping = skipping if depth else ""
        if name and name not in _INLINE:
            parts.append("\n")
        text_start = end
    if not skipping:
        parts.append(markup[text_start:])
    lines = html.unescape(_HUGE_CHARACTER_REFERENCE.sub(" ", "".join(parts))).split("\n")
    return "\n".join(stripped for line in lines if (stripped := " ".join(line.split())))


def find_title(markup: str) -> str:
    """Return the title, or an empty string, without parsing the page."""
    match = _TITLE.search(markup)
    return html.unescape(_HUGE_CHARACTER_REFERENCE.sub(" ", match[1])) if match else ""
