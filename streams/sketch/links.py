"""Extract the links of a page: their targets, anchor texts and flags, cut into chunks that pages share.

    markup ─▶ link_scanner ─▶ tags ─▶ link_parser ─▶ records ─▶ link_chunker ─▶ chunks
                                └───▶ this module, for unusual tags ───┘

The three modules are compiled. Python would need as long for the links of a page as parsing the page takes. The few
tags that `link_parser` does not understand are parsed here, and cached by their markup, because most of them are in
the site's navigation, which repeats on other pages.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

import msgspec
import numpy as np

from state.model import LinkKind
from streams.errors import BadUrl
from streams.page import SuppliedLink
from streams.sketch.link_records import (
    HTTPS,
    IN_NAVIGATION,
    IS_CUT,
    KIND_SHIFT,
    LINK,
    NAVIGATION,
    NO_LINK,
    NOFOLLOW,
    RECORD_COLUMNS,
)
from streams.urls import url_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAG_CACHE_BYTES, _TAG_CACHE_MARKUP_MAX = 16 << 20, 4_096  # of all tags, and of one: a page may have very long tags
_TAG_CACHE_ENTRY_BYTES = 400  # about the memory of an entry, without its markup and its record
_RECORDS_BYTES_MAX = 1 << 18  # of the records of a page that compiled code writes, several times the usual size
_BASE_CACHE_SIZE = 1_024
_SCRIPT_CHARS_MAX = 4_096  # a longer page is shown to readers, so its scripts are not searched for a redirect
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])([^\s"'>/=]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>][^\s>]*+))""")
# The value of `href` if it is the first attribute, or follows only attributes with quoted values.
_HREF = re.compile(
    r"""<\w++(?:\s++(?!href\b)[a-z-]++=(?:"[^"]*+"|'[^']*+'))*+\s++href=(?:"([^"]*+)"|'([^']*+)')""", re.IGNORECASE
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_INLINE_TAG = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|big|cite|code|em|font|i|kbd|mark|q|s|samp|small|span|strong|sub|sup|tt|u|var|wbr)\b[^<>]*>",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^>]*>?")
_ALTERNATIVE_TEXT = re.compile(r"""(?<![\w-])(?:alt|title|aria-label)\s*=\s*(?:"([^"]+)"|'([^']+)')""", re.IGNORECASE)
_SCRIPT_REDIRECT = re.compile(
    r"""\blocation(?:\.href\s*=|\s*=|\.(?:replace|assign)\s*\()\s*(?:"([^"\s]+)"|'([^'\s]+)')"""
)


class LinkPayload(msgspec.Struct, frozen=True):
    """The links of a page, in chunks that it may share with other pages, and the limits that were reached."""

    chunks: list[bytes]  # values of `link_chunks`
    dropped: int = 0  # links beyond `limits.links_max`, or with a URL longer than `limits.url_bytes_max`
    anchors_cut: int = 0  # anchors longer than `limits.anchor_chars_max`


class _Record(NamedTuple):
    """A link as bytes, with the offsets of its parts: see `link_records`."""

    data: bytes
    target_end: int
    anchor_start: int
    flags: int


_NOT_A_LINK, _TOO_LONG = _Record(b"", 0, 0, 0), _Record(b"\0", 0, 0, 0)  # `_TOO_LONG`: the URL is too long
_TagCache = tuple[dict[bytes, _Record], dict[bytes, _Record]]
"""Parsed tags by their markup: those in the main content, and those in navigation."""


class LinkExtractor:
    """Extracts links, with a cache of the unusual tags of earlier pages. Not thread-safe."""

    def __init__(
        self, *, keep_anchors: bool = True, links_max: int = 2_000, anchor_chars_max: int = 200,
        url_bytes_max: int = 2_048,
    ) -> None:  # fmt: skip
        from streams.sketch import link_chunker, link_parser, link_scanner  # loading numba takes half a second

        self._keep_anchors, self._links_max = keep_anchors, links_max
        self._anchor_chars_max, self._url_bytes_max = anchor_chars_max, url_bytes_max
        self._scan, self._parse, self._cut = link_scanner.scan, link_parser.parse, link_chunker.cut
        self._limits = url_bytes_max, anchor_chars_max, keep_anchors
        self._output = np.empty(_RECORDS_BYTES_MAX, dtype=np.uint8)
        self._tags: dict[str, _TagCache] = {}  # by the part of the page's URL on which targets depend
        self._cached_bytes = 0

    def from_html(
        self, data: bytes, url: str, key: bytes, meta_refresh: str | None = None, *, is_short: bool = False
    ) -> LinkPayload | None:
        """Return the links of an HTML page in UTF-8, or None if it has none.

        `meta_refresh` is the target of a <meta http-equiv="refresh">. If the page shows little text (`is_short`), its
        scripts are searched for a redirect.
        """
        buffer, tags, dropped = self._scan(data, self._links_max)
        rows = np.empty((len(tags), RECORD_COLUMNS), dtype=np.int64)
        odd_numbers = np.empty(len(tags), dtype=np.int64)
        records: list[tuple[int, _Record]] = []  # of odd tags, with their numbers
        first, used, base, has_base = 0, 0, url, False
        while first < len(tags):
            stop, odd_count, used = self._parse(
                buffer, tags, first, *_base(_folder(base)), self._limits, self._output, used, rows, odd_numbers
            )
            if odd_count:
                numbers = odd_numbers[:odd_count]
                records += zip(numbers.tolist(), self._parse_tags(data, tags[numbers], base), strict=True)
            if stop < len(tags) and not has_base:  # a <base>, of which only the first one counts
                _, start, end, _ = tags[stop].tolist()
                href = _href(data[start:end].decode())
                base, has_base = _resolve(href, url) if href else url, bool(href)
            first = stop + 1
        if self._cached_bytes > _TAG_CACHE_BYTES:
            self._tags, self._cached_bytes = {}, 0
        supplied = [SuppliedLink(meta_refresh, kind=LinkKind.REFRESH)] if meta_refresh else []
        if is_short and (match := _SCRIPT_REDIRECT.search(data.decode("utf-8", "replace")[:_SCRIPT_CHARS_MAX])):
            supplied.append(SuppliedLink(match[1] or match[2], kind=LinkKind.SCRIPT))
        return self._payload(rows, self._output[:used].tobytes(), records, supplied, url, key, dropped)

    def from_links(self, links: Sequence[SuppliedLink], url: str, key: bytes) -> LinkPayload | None:
        """Return the links that the crawler supplied, or None if the page has none."""
        rows = np.empty((0, RECORD_COLUMNS), dtype=np.int64)
        dropped = max(0, len(links) - self._links_max)
        return self._payload(rows, b"", [], links[: self._links_max], url, key, dropped)

    def _payload(
        self, rows: NDArray[np.int64], data: bytes, records: list[tuple[int, _Record]],
        supplied: Sequence[SuppliedLink], url: str, key: bytes, dropped: int,
    ) -> LinkPayload | None:  # fmt: skip
        """Return the chunks of the records in `data`, of `records` with row numbers, and of supplied links."""
        if supplied:
            records += enumerate((self._parse_supplied(link, url) for link in supplied), len(rows))
            rows = np.concatenate((rows, np.empty((len(supplied), RECORD_COLUMNS), dtype=np.int64)))
        offset, parts = len(data), [data]
        for number, record in records:
            dropped += record is _TOO_LONG
            end = offset + len(record.data)
            start = offset if record.target_end else NO_LINK
            rows[number] = start, offset + record.target_end, offset + record.anchor_start, end, record.flags
            parts.append(record.data)
            offset = end
        chunks, anchors_cut = self._cut(parts, rows, key)
        return LinkPayload(chunks, dropped, anchors_cut) if chunks or dropped else None

    def _parse_tags(self, data: bytes, rows: NDArray[np.int64], base: str) -> list[_Record]:
        """Return the records of tags, many of which are cached. `rows` are those of `link_scanner`."""
        records: list[_Record] = []
        site_tags, folder_tags = self._caches(base)
        for kind, start, tag_end, end in rows.tolist():
            piece, region = data[start:end], kind // IN_NAVIGATION
            record = site_tags[region].get(piece) or folder_tags[region].get(piece)
            if record is None:
                tag, content = data[start:tag_end].decode(), data[tag_end:end].decode("utf-8", "ignore")
                record, depends_on = self._parse_tag(kind, tag, content, base)
                if depends_on is not _Dependence.URL and len(piece) <= _TAG_CACHE_MARKUP_MAX:
                    (site_tags if depends_on is _Dependence.SITE else folder_tags)[region][piece] = record
                    self._cached_bytes += len(piece) + len(record.data) + _TAG_CACHE_ENTRY_BYTES
            records.append(record)
        return records

    def _parse_supplied(self, link: SuppliedLink, url: str) -> _Record:
        anchor = " ".join(link.anchor.split())
        return self._record(link.target.strip(), url, anchor, kind=link.kind, nofollow=link.nofollow)

    def _caches(self, base: str) -> tuple[_TagCache, _TagCache]:
        """Return the cached tags of the site of `base`, and those with references relative to its folder."""
        folder, site = _folder(base), f"//{_site(base)}"
        for name in (site, folder):
            if name not in self._tags:
                self._tags[name] = {}, {}
                self._cached_bytes += len(name) + _TAG_CACHE_ENTRY_BYTES
        return self._tags[site], self._tags[folder]

    def _parse_tag(self, kind: int, tag: str, content: str, base: str) -> tuple[_Record, _Dependence]:
        """Return the record of a tag, and what its target depends on."""
        href = _href(tag)
        if href[:1] in ("", "#"):
            return _NOT_A_LINK, _Dependence.SITE
        depends_on = _dependence(href)
        if kind & LINK:
            attributes = _attributes(tag)
            relations = attributes.get("rel", "").lower().split()
            if "canonical" in relations:
                return self._record(href, base, kind=LinkKind.CANONICAL), depends_on
            if "alternate" in relations and attributes.get("hreflang"):
                return self._record(href, base, attributes["hreflang"].lower(), kind=LinkKind.ALTERNATE), depends_on
            return _NOT_A_LINK, _Dependence.SITE
        anchor = _anchor(content) or _alternative_text(tag, content)
        nofollow = "nofollow" in tag.lower() and "nofollow" in _attributes(tag).get("rel", "").lower().split()
        navigation = bool(kind & IN_NAVIGATION)
        return self._record(href, base, anchor, nofollow=nofollow, navigation=navigation), depends_on

    def _record(
        self, href: str, base: str, anchor: str = "", *, kind: LinkKind = LinkKind.ANCHOR, nofollow: bool = False,
        navigation: bool = False,
    ) -> _Record:  # fmt: skip
        """Return a link, `_NOT_A_LINK` if it leads to something that is not a page of the web, or `_TOO_LONG`."""
        target = _resolve(href, base)
        if len(target) > self._url_bytes_max:
            return _TOO_LONG if target[:4].lower() == "http" else _NOT_A_LINK  # such as an image in the URL
        try:
            key = url_key(target, self._url_bytes_max)
        except BadUrl:
            return _NOT_A_LINK
        is_cut = len(anchor) > self._anchor_chars_max
        anchor = anchor[: self._anchor_chars_max] if self._keep_anchors else ""
        is_https = target[:6].lower() == "https:"
        flags = kind << KIND_SHIFT | HTTPS * is_https | NOFOLLOW * nofollow | NAVIGATION * navigation
        before_anchor = b"%b\0%d" % (key, flags)
        data = before_anchor + anchor.encode("utf-8", "replace")
        return _Record(data, len(key), len(before_anchor), flags | IS_CUT * is_cut)


class _Dependence(Enum):
    """The part of a page's URL on which the target of a reference depends."""

    SITE = auto()
    FOLDER = auto()
    URL = auto()


def _dependence(href: str) -> _Dependence:
    if href[:2] == "//" and href[2:3] in ("", "/", "?", "#"):  # no host follows
        return _Dependence.URL
    if href[0] == "/" or _SCHEME.match(href):
        return _Dependence.SITE
    return _Dependence.URL if href[0] == "?" else _Dependence.FOLDER


@lru_cache(maxsize=64)
def _folder(url: str) -> str:
    """Return a URL up to the last `/` of its path, without it."""
    path = url.partition("#")[0].partition("?")[0]
    folder = path.rpartition("/")[0]
    return folder if "//" in folder else path  # without a path, the last `/` precedes the host


@lru_cache(maxsize=64)
def _site(url: str) -> str:
    """Return the scheme and the host of a URL."""
    return "/".join(_folder(url).split("/", 3)[:3])


@lru_cache(maxsize=_BASE_CACHE_SIZE)
def _base(folder: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8], tuple[int, int, bool]]:
    """Return the arguments of `link_parser.parse` that describe the base of relative references."""
    keys = _key_or_empty(f"{folder}/"), _key_or_empty(f"{_site(folder)}/")
    roots = {key.find(b")/") + 2 for key in keys}
    if len(roots) > 1 or "@" in folder or folder[:4].lower() != "http":  # such as an invalid URL
        keys = b"", b""
    folder_key, site_key = (np.frombuffer(key, dtype=np.uint8) for key in keys)
    return folder_key, site_key, (roots.pop(), len(folder.encode("utf-8", "replace")), folder[:6].lower() == "https:")


def _key_or_empty(url: str) -> bytes:
    try:
        return url_key(url)
    except BadUrl:
        return b""


def _href(tag: str) -> str:
    match = _HREF.match(tag)
    value = html.unescape(match[1] or match[2] or "") if match else _attributes(tag).get("href", "")
    return value.strip()


def _attributes(tag: str) -> dict[str, str]:
    """Return the attributes of a tag by name. Of attributes with the same name, the first one counts."""
    attributes: dict[str, str] = {}
    for name, double_quoted, single_quoted, unquoted in _ATTRIBUTE.findall(tag):
        attributes.setdefault(name.lower(), html.unescape(double_quoted or single_quoted or unquoted))
    return attributes


def _anchor(markup: str) -> str:
    """Return the text of the markup between <a> and </a>."""
    if "<" in markup:
        markup = _TAG.sub(" ", _INLINE_TAG.sub("", markup))
    return " ".join(html.unescape(markup).split())


def _alternative_text(tag: str, content: str) -> str:
    """Return the words that stand for an image or an icon."""
    match = _ALTERNATIVE_TEXT.search(tag) or _ALTERNATIVE_TEXT.search(content)
    return " ".join(html.unescape(match[1] or match[2]).split()) if match else ""


def _resolve(href: str, base: str) -> str:
    """Return the absolute URL of a reference, which may be invalid."""
    if _SCHEME.match(href):
        return href
    # The parser of URLs removes `..`, several times as fast as urljoin.
    if href[:1] not in ("", "/", "?"):
        return f"{_folder(base)}/{href}"
    if href[:1] == "/" and href[1:2] not in ("/", "\\"):
        return _site(base) + href
    try:
        return urljoin(base, href)
    except ValueError:
        return ""
