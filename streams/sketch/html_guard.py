"""HTML that must not reach the parser, and its text without one.

An HTML parser is quadratic or worse where the standard makes it so. Tried with lexbor: 27 kB of `<b id=1><b id=2>...`
before `<p>x<p>x...` became 2.2 million elements and 860 MB, since each paragraph opens all of them anew; 700 kB of
`<b></i>` took 17 s, as each end tag walks all that is open; a tag with 100,000 attributes did not end in 20 s. So
the work that a page may cause is bounded from above before it is parsed, by counts that no markup can hide from. A
page over a bound, hostile or merely huge, loses its tags in one linear sweep instead, and keeps nearly the same text.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

TAGS_MAX = 30_000  # some tags walk all elements that are open: about a second at this many
REOPENED_MAX = 1_000_000  # elements that unclosed formatting may be copied to, at some 400 bytes each
ATTRIBUTE_STEPS_MAX = 200_000_000  # a new attribute is compared with the tag's others
ROOTS_MAX = 100  # each further <html> or <body> hands its attributes to the first
META_CHARS_MAX = 8_192  # a <meta> tag is read up to here
INDENT_CHARS_MAX = 100_000_000  # a line of a nested list starts with two spaces a level

_SMALL_BYTES, _SMALL_TAGS = 20_000, 1_500  # pages within these two are within all of the above

_TAG = re.compile(r"<(?:!--|(?:[!?]|/?([a-zA-Z][^\s/>]*))[^>]*>)")
_NO_TEXT = frozenset(
    ["script", "style", "title", "template", "noscript", "textarea", "select", "iframe", "noembed", "noframes", "xmp"]
)
_INLINE = frozenset(
    """a abbr b bdi bdo big cite code data del dfn em font i ins kbd mark nobr q s samp small span strike strong
    sub sup time tt u var""".split()  # noqa: SIM905 - a list would fill the screen
)
_HUGE_NUMBER = re.compile(r"&#[0-9]{8,}")
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{0,2000})", re.IGNORECASE)


class Weight(NamedTuple):
    """What is known of markup before it is parsed."""

    heavy: bool  # parsing might take more than a second or some hundred megabytes
    meta_chars: int  # all <meta> tags that are of use stand within so many characters of the beginning


def weigh(markup: str) -> Weight:
    """Weigh a page before it reaches the parser."""
    if len(markup) <= _SMALL_BYTES and markup.count("<") <= _SMALL_TAGS:
        return Weight(False, len(markup))
    from streams.sketch.kernel import weigh_markup

    tags, formatting, attribute_steps, roots, lists, meta = weigh_markup(markup.encode("utf-8", "replace"))
    heavy = (
        tags > TAGS_MAX
        or tags * formatting > REOPENED_MAX
        or attribute_steps > ATTRIBUTE_STEPS_MAX
        or roots > ROOTS_MAX
        or 2 * lists * tags > INDENT_CHARS_MAX
    )
    return Weight(heavy, meta + META_CHARS_MAX if meta else 0)  # bytes are no fewer than characters


def strip_tags(markup: str, skipped: Collection[str] = ()) -> str:
    """The text between tags, without that of `skipped` elements; in time linear in the length.

    Attributes that hold a `>` leave their rest as text: rare, and no harm.
    """
    parts: list[str] = []
    end = markup.rfind(">") + 1  # each tag looked for below has its end, so none is looked for in vain
    at, inside, depth = 0, "", 0
    while (found := _TAG.search(markup, at, end)) is not None:
        if not inside:
            parts.append(markup[at : found.start()])
        at = found.end()
        if found[0] == "<!--":
            close = markup.find("-->", at)
            at = close + 3 if close >= 0 else len(markup)
            continue
        name, closing = (found[1] or "").lower(), found[0][1] == "/"
        if name in _NO_TEXT and not closing:
            behind = re.compile("</" + name, re.IGNORECASE).search(markup, at)
            at = behind.start() if behind else len(markup)
        elif inside and name == inside:
            depth += -1 if closing else 1
            inside = inside if depth else ""
        elif name in skipped and not closing and not inside:
            inside, depth = name, 1
        if name and name not in _INLINE:
            parts.append("\n")
    if not inside:
        parts.append(markup[at:])
    lines = html.unescape(_HUGE_NUMBER.sub(" ", "".join(parts))).split("\n")
    return "\n".join(stripped for line in lines if (stripped := " ".join(line.split())))


def title_of(markup: str) -> str:
    """The title, found without a parser; empty where there is none."""
    found = _TITLE.search(markup)
    return html.unescape(_HUGE_NUMBER.sub(" ", found[1])) if found else ""
