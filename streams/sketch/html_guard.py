"""Detect HTML that would overload the parser, and strip its tags instead of parsing it.

The HTML standard requires quadratic time or worse for some pages. In lexbor, Resiliparse's parser, 27 kB of
`<b id=1><b id=2>...` before `<p>x<p>x...` became 2.2 million elements and 860 MB, because each paragraph reopens
every <b>. 700 kB of `<b></i>` took 17 s, because each end tag visits all open elements. A tag with 100,000 attributes
took more than 20 s, and 270 kB of `<select><option>x<option>x...` took 3 s, because each <option> visits all nodes of
its <select>. Therefore, tags, attributes and nodes are counted first, which gives an upper bound on the work. A
page that exceeds a limit is not parsed. Instead, its tags are stripped in linear time; the text is nearly the same.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from streams.settings import Limits

META_CHARS_MAX = 8_192  # only this much of a <meta> tag is read

_SMALL_CHARS, _SMALL_TAGS = 20_000, 1_500  # a page within both is within all default `ParserLimits`

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


class ParserLimits(msgspec.Struct, frozen=True):
    """Limits on the work of the parser. A page within them takes at most about a second and 400 MB."""

    tags_max: int = 30_000  # some tags make the parser visit all open elements
    attributes_max: int = 500_000  # each takes about 240 bytes
    other_markup_max: int = 500_000  # each comment takes about 300 bytes, with the text after it
    reopened_max: int = 1_000_000  # each copy of an unclosed formatting element takes about 400 bytes
    visits_max: int = 300_000_000  # text in a table makes the parser visit all open elements
    option_visits_max: int = 100_000_000  # each <option> makes the parser visit all nodes of its <select>
    attribute_comparisons_max: int = 200_000_000  # each new attribute is compared with the tag's other attributes
    name_comparisons_max: int = 1_000_000_000  # the parser's table of attribute names has only 128 slots
    roots_max: int = 100  # the parser adds the attributes of each further <html> or <body> tag to the first one
    indent_chars_max: int = 100_000_000  # a line in nested lists is indented by two spaces per level

    @classmethod
    def from_settings(cls, limits: Limits) -> Self:
        return cls(tags_max=limits.html_tags_max, attributes_max=limits.html_attributes_max)


DEFAULT_LIMITS = ParserLimits()


class ParsingEstimate(NamedTuple):
    """Whether a page is too expensive to parse, and where its <meta> tags end."""

    too_expensive: bool  # parsing can take more than a second or several hundred megabytes
    meta_chars: int  # the first `meta_chars` characters contain all relevant <meta> tags


def estimate_parsing(
    markup: str, limits: ParserLimits = DEFAULT_LIMITS, data: bytes | None = None
) -> ParsingEstimate:
    """Estimate the work of parsing a page. `data` is the page in UTF-8, or None if the caller does not have it."""
    if len(markup) <= _SMALL_CHARS and markup.count("<") <= min(_SMALL_TAGS, limits.tags_max):
        return ParsingEstimate(False, len(markup))
    from streams.sketch.html_counts import count_markup

    counts = count_markup(markup.encode("utf-8", "replace") if data is None else data)
    too_expensive = (
        counts.tags > limits.tags_max
        or counts.attributes > limits.attributes_max
        or counts.other_markup > limits.other_markup_max
        or counts.tags * counts.formatting > limits.reopened_max
        or counts.tags * counts.formatting_attributes > 2 * limits.reopened_max
        or counts.tags * counts.other_markup > limits.visits_max
        or counts.options * (counts.tags + counts.other_markup) > limits.option_visits_max
        or counts.attribute_comparisons > limits.attribute_comparisons_max
        or counts.attributes * counts.attribute_names > limits.name_comparisons_max
        or counts.roots > limits.roots_max
        or 2 * counts.lists * counts.tags > limits.indent_chars_max
    )
    # `meta_end` counts bytes, so it is at least the number of characters.
    return ParsingEstimate(too_expensive, counts.meta_end + META_CHARS_MAX if counts.meta_end else 0)


def _markup_pieces(markup: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield (kind, name, start, end) of each tag, comment and declaration; `kind` is "start", "end" or "other".

    Names are in lower case. The start tag of an element without visible text, such as <script>, spans its content.
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
        if name == "plaintext" and not piece[1]:
            return  # no end tag can close it, so the rest of the page is text


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
