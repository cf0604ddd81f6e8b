"""Extract the links of a page: their targets, anchor texts and flags, cut into chunks that pages share.

`link_scanner` finds the tags. Most links of a page are the site's navigation, which repeats on other pages. Parsed
tags are therefore cached by their markup: parsing them again would take as long as parsing the page.

Chunks are content-defined (Muthitacharoen, Chen and Mazieres, "A low-bandwidth network file system", SOSP 2001): a
chunk ends after a link whose hash is divisible by 16. Pages with a common run of links therefore have common chunks,
whatever precedes or follows the run. A chunk also ends where navigation begins or ends.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urljoin

import mmh3
import msgspec

from state.codecs import link_chunk
from state.model import Link, LinkKind
from streams.errors import BadUrl
from streams.page import SuppliedLink
from streams.urls import url_key

A, AREA, LINK, BASE = 0, 1, 2, 3  # the elements that contain links, numbered as in `link_scanner`
IN_NAVIGATION = 4  # added to the number of an element inside <nav>, <footer> or <aside>
LINKS_PER_CHUNK = 16  # on average
_CHUNK_LINKS_MAX = 64
_TAG_CACHE_SIZE, _TAG_CACHE_MARKUP_MAX = 65_536, 512  # tags, and bytes of a tag; a page may have long tags
_CHUNK_CACHE_BYTES = 16 << 20
_URL_CACHE_SIZE = 16_384
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


class _ParsedLink(NamedTuple):
    """A link with its hash, which determines where chunks end."""

    target: bytes  # URL key
    link: Link
    hash: bytes = b""  # 8 bytes
    ends_chunk: bool = False
    navigation: bool = False
    is_cut: bool = False  # whether its anchor was longer than the limit


_NOT_A_LINK = _ParsedLink(b"", Link(target=b""))
_TOO_LONG = _ParsedLink(b"\0", Link(target=b"\0"))  # the URL is too long
_TagCache = tuple[dict[bytes, _ParsedLink], dict[bytes, _ParsedLink]]
"""Parsed tags by their markup: those in the main content, and those in navigation."""


class LinkExtractor:
    """Extracts links, with caches of the tags and chunks of earlier pages. Not thread-safe."""

    def __init__(
        self, *, keep_anchors: bool = True, links_max: int = 2_000, anchor_chars_max: int = 200,
        url_bytes_max: int = 2_048,
    ) -> None:  # fmt: skip
        self._keep_anchors, self._links_max = keep_anchors, links_max
        self._anchor_chars_max, self._url_bytes_max = anchor_chars_max, url_bytes_max
        self._tags: dict[str, _TagCache] = {}  # by the part of the page's URL on which targets depend
        self._cached_tags = 0  # plus the number of `_TagCache`s
        self._chunks: dict[bytes, bytes] = {}  # values, by the hashes of their links
        self._chunk_bytes = 0

    def from_html(
        self, markup: str, url: str, key: bytes, meta_refresh: str | None = None, *, is_short: bool = False
    ) -> LinkPayload | None:
        """Return the links of an HTML page, or None if it has none.

        `meta_refresh` is the target of a <meta http-equiv="refresh">. If the page shows little text (`is_short`), its
        scripts are searched for a redirect.
        """
        from streams.sketch import link_scanner

        data = markup.encode("utf-8", "replace")
        rows, dropped = link_scanner.scan(data, self._links_max)
        parsed: list[_ParsedLink] = []
        base, has_base, (site_tags, folder_tags) = url, False, self._caches(url)
        for kind, start, tag_end, end in rows.tolist():
            piece, region = data[start:end], kind // IN_NAVIGATION
            link = site_tags[region].get(piece) or folder_tags[region].get(piece)
            if link is None:
                tag, content = data[start:tag_end].decode(), data[tag_end:end].decode("utf-8", "ignore")
                if kind % IN_NAVIGATION == BASE:
                    href = _href(tag)
                    if href and not has_base:  # only the first one counts
                        base, has_base = _resolve(href, url), True
                        site_tags, folder_tags = self._caches(base)
                    continue
                link, depends_on = self._parse_tag(kind, tag, content, base)
                if depends_on is not _Dependence.URL and len(piece) <= _TAG_CACHE_MARKUP_MAX:
                    (site_tags if depends_on is _Dependence.SITE else folder_tags)[region][piece] = link
                    self._cached_tags += 1
            if link is _TOO_LONG:
                dropped += 1
            elif link is not _NOT_A_LINK and link.target != key:
                parsed.append(link)
        if self._cached_tags > _TAG_CACHE_SIZE:
            self._tags, self._cached_tags = {}, 0
        supplied = [SuppliedLink(meta_refresh, kind=LinkKind.REFRESH)] if meta_refresh else []
        if is_short and (match := _SCRIPT_REDIRECT.search(markup[:_SCRIPT_CHARS_MAX])):
            supplied.append(SuppliedLink(match[1] or match[2], kind=LinkKind.SCRIPT))
        return self._payload(parsed, supplied, url, key, dropped)

    def from_links(self, links: Sequence[SuppliedLink], url: str, key: bytes) -> LinkPayload | None:
        """Return the links that the crawler supplied, or None if the page has none."""
        return self._payload([], links[: self._links_max], url, key, max(0, len(links) - self._links_max))

    def _payload(
        self, parsed: list[_ParsedLink], supplied: Iterable[SuppliedLink], url: str, key: bytes, dropped: int
    ) -> LinkPayload | None:
        for link in supplied:
            anchor = " ".join(link.anchor.split())
            parsed_link = self._parsed(link.target.strip(), url, anchor, kind=link.kind, nofollow=link.nofollow)
            if parsed_link is _TOO_LONG:
                dropped += 1
            elif parsed_link.target not in (b"", key):
                parsed.append(parsed_link)
        if not parsed and not dropped:
            return None
        chunks = [self._encode(chunk) for chunk in _cut_into_chunks(parsed)]
        return LinkPayload(chunks, dropped, sum(link.is_cut for link in parsed))

    def _encode(self, chunk: Sequence[_ParsedLink]) -> bytes:
        """Return the value of a chunk."""
        hashes = b"".join([link.hash for link in chunk])
        value = self._chunks.get(hashes)
        if value is None:
            value = self._chunks[hashes] = link_chunk.encode([link.link for link in chunk])
            self._chunk_bytes += len(hashes) + len(value)
            if self._chunk_bytes > _CHUNK_CACHE_BYTES:
                self._chunks, self._chunk_bytes = {}, 0
        return value

    def _caches(self, base: str) -> tuple[_TagCache, _TagCache]:
        """Return the cached tags of the site of `base`, and those with references relative to its folder."""
        folder, site = _folder(base), f"//{_site(base)}"
        for name in (site, folder):
            if name not in self._tags:
                self._tags[name] = {}, {}
                self._cached_tags += 1
        return self._tags[site], self._tags[folder]

    def _parse_tag(self, kind: int, tag: str, content: str, base: str) -> tuple[_ParsedLink, _Dependence]:
        """Return the link of a tag, and what its target depends on."""
        href = _href(tag)
        if href[:1] in ("", "#"):
            return _NOT_A_LINK, _Dependence.SITE
        depends_on = _dependence(href)
        if kind & LINK:
            attributes = _attributes(tag)
            relations = attributes.get("rel", "").lower().split()
            if "canonical" in relations:
                return self._parsed(href, base, kind=LinkKind.CANONICAL), depends_on
            if "alternate" in relations and attributes.get("hreflang"):
                return self._parsed(href, base, attributes["hreflang"].lower(), kind=LinkKind.ALTERNATE), depends_on
            return _NOT_A_LINK, _Dependence.SITE
        anchor = _anchor(content) or _alternative_text(tag, content)
        nofollow = "nofollow" in tag.lower() and "nofollow" in _attributes(tag).get("rel", "").lower().split()
        navigation = bool(kind & IN_NAVIGATION)
        return self._parsed(href, base, anchor, nofollow=nofollow, navigation=navigation), depends_on

    def _parsed(
        self, href: str, base: str, anchor: str = "", *, kind: LinkKind = LinkKind.ANCHOR, nofollow: bool = False,
        navigation: bool = False,
    ) -> _ParsedLink:  # fmt: skip
        """Return a link, `_NOT_A_LINK` if it leads to something that is not a page of the web, or `_TOO_LONG`."""
        target = _resolve(href, base)
        if len(target) > self._url_bytes_max:
            return _TOO_LONG if target[:4].lower() == "http" else _NOT_A_LINK  # such as an image in the URL
        key = _key_or_empty(target, self._url_bytes_max)
        if not key:
            return _NOT_A_LINK
        is_cut = len(anchor) > self._anchor_chars_max
        anchor = anchor[: self._anchor_chars_max] if self._keep_anchors else ""
        https = target[:6].lower() == "https:"
        link = Link(target=key, https=https, kind=kind, anchor=anchor, nofollow=nofollow, navigation=navigation)
        flags = kind << 3 | https << 2 | nofollow << 1 | navigation
        digest = mmh3.mmh3_x64_128_digest(b"%b\0%d%b" % (key, flags, anchor.encode("utf-8", "replace")))[:8]
        return _ParsedLink(key, link, digest, digest[0] % LINKS_PER_CHUNK == 0, navigation, is_cut)


class _Dependence(Enum):
    """The part of a page's URL on which the target of a reference depends."""

    SITE = auto()
    FOLDER = auto()
    URL = auto()


def _dependence(href: str) -> _Dependence:
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


@lru_cache(maxsize=_URL_CACHE_SIZE)
def _key_or_empty(url: str, url_bytes_max: int) -> bytes:
    try:
        return url_key(url, url_bytes_max)
    except BadUrl:
        return b""


def _cut_into_chunks(links: Sequence[_ParsedLink]) -> Iterator[list[_ParsedLink]]:
    """Yield the chunks of a page's links. A link occurs in a chunk only once."""
    chunk: dict[bytes, _ParsedLink] = {}
    is_complete = navigation = False
    for link in links:
        if chunk and (is_complete or link.navigation is not navigation or len(chunk) >= _CHUNK_LINKS_MAX):
            yield list(chunk.values())
            chunk = {}
        chunk[link.hash] = link
        is_complete, navigation = link.ends_chunk, link.navigation
    if chunk:
        yield list(chunk.values())


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
