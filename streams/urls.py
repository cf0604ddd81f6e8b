"""URL keys: SURT order, so that a host, a domain or a directory is one range of keys.

    https://ci.flink.apache.org:8080/2019/05/x.html?q=1#top
      -> org,apache,flink,ci:8080)/2019/05/x.html?q=1
         ───────┬─────────── ──┬── ┬────────┬────────
         host labels reversed  │   │        path and query as WHATWG normalises them
                 a port that is not the scheme's   always there: closes the host

Scheme, user info and fragment are not part of a key: http and https of one page share it. IP addresses are not
reversed (`192.0.2.7)/`, `[2001:db8::1])/`). A key is ASCII without bytes below 0x21, so that a NUL can end it.

Parsing, IDNA and normalisation are can_ada's (WHATWG URL). After that a host may hold only letters, digits, `.`, `_`
and `-`: the standard also allows `,` and `)`, which no name server serves and which would make keys ambiguous.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import can_ada

from state.codecs import url_key as codec
from streams.errors import BadUrl

if TYPE_CHECKING:
    from tldextract import TLDExtract

URL_BYTES_MAX = 60_000  # the maximum of the setting: queries accept any URL that an ingest may have accepted
HOSTS_CACHED = 65_536
_PORTS = {"http:": "80", "https:": "443"}
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\]", re.ASCII)
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)
_HINT = "give an http:// or https:// URL with a host name"


def url_key(url: str, url_bytes_max: int = URL_BYTES_MAX) -> bytes:
    """Return the key of a URL; raise BadUrl unless it is an http or https URL with a host, and not too long.

    The limit in bytes applies to the URL as given and to its key, which percent-encoding can make longer.
    """
    parsed = _parse(url, url_bytes_max)
    key = _host_key(parsed.hostname, parsed.port) + (parsed.pathname + parsed.search).encode("ascii")
    if len(key) > url_bytes_max:
        raise BadUrl(f"URL key of {len(key)} bytes, more than url_bytes_max {url_bytes_max}: {_shown(url)}", _HINT)
    return key


def key_url(key: bytes, scheme: str = "https") -> str:
    """Return a URL that has this key: `url_key(key_url(key, scheme)) == key` unless the port is the scheme's own.

    Raises BadUrl if the bytes are not a key.
    """
    host_prefix(key)  # raises BadUrl
    if not key.isascii():
        raise BadUrl(f"not a URL key: {key[:80]!r} is not ASCII", "make keys with url_key()")
    return codec.url_of(key, https=scheme == "https")


def key_host(key: bytes, *, port: bool = False) -> str:
    """Return the host name in a key, in reading order; with `port`, followed by the port if the key has one."""
    name, number = codec.decode_host(host_prefix(key))
    return f"{name}:{number}" if port and number else name


def host_prefix(key: bytes) -> bytes:
    """Return the prefix of all keys of this host and port, up to the `)`; raise BadUrl if it has no host."""
    prefix = codec.host_prefix(key)
    if len(prefix) < 2:
        raise BadUrl(f"not a URL key: {key[:80]!r} has no host closed by ')'", "make keys with url_key()")
    return prefix


def directory_prefix(key: bytes) -> bytes:
    """Return the prefix of all keys in the directory of this key, up to the last `/` of the path."""
    return key[: key.rfind(b"/", 0, _query(key)) + 1]


def domain_prefix(key: bytes) -> bytes:
    """Return the reversed registered domain (`org,apache`), a short name for all hosts and ports of a site.

    Do not scan for it (`org,apachecon)` begins with it too); scan the `domain_ranges`.
    """
    return _domain_key(key_host(key))


def domain_ranges(key: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the two ranges [start, stop) of exactly the keys of this key's registered domain.

    The bytes `)` and `,` (the domain and its subdomains) are adjacent below `-`; `:` (a port of the bare domain) is a
    range of its own. Names below a public suffix (`police.uk`) do not belong to it.
    """
    host = key_host(key)
    domain = _domain_key(host)
    stop = b"*" if _is_suffix(host) else b"-"
    return (domain + b")", domain + stop), (domain + b":", domain + b";")


@lru_cache(maxsize=HOSTS_CACHED)
def registered_domain(host: str) -> str:
    """Return the registered domain of a host: `docs.a.co.uk` -> `a.co.uk`.

    This uses the public suffix list shipped with tldextract, which is never fetched. For an IP address, a single name
    or a public suffix it is the host itself.
    """
    if "." not in host or host[0] == "[" or _IPV4.fullmatch(host):
        return host
    parts = _suffixes().extract_str(host)
    if not parts.suffix:  # a top-level domain that the list does not know: its default rule is `*`
        return ".".join(host.split(".")[-2:])
    return f"{parts.domain}.{parts.suffix}" if parts.domain else host


@lru_cache(maxsize=HOSTS_CACHED)
def _is_suffix(host: str) -> bool:
    """Return whether a host is a public suffix: names below it belong to others."""
    return "." in host and not _IPV4.fullmatch(host) and host[0] != "[" and not _suffixes().extract_str(host).domain


_SPLIT = re.compile(r"[^\W_]+")
# HTMLParser -> HTML Parser; ModelAdmin -> Model Admin; utf8, v2 and 3d stay whole.
_CAMEL = re.compile(r"[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*|\d+[a-z]?(?![a-z])|\d+")
_MIXED = re.compile(r"(?<=\d)(?=[^\W\d])|(?<=[^\W\d])(?=\d)")
_EXTENSION = re.compile(r"\.(?:[xs]?html?|php\d?|aspx?|jspx?|cgi|cfm|rst|md|txt)$", re.IGNORECASE)
_INDEX = frozenset({"index", "default"})
_TURNS_MAX = 2  # more changes between letters and digits than this: an id, which has no words in it


def path_words(url: str) -> list[str]:
    """Return the words of a URL's path and of its query's values, in order, lower case; raise BadUrl.

    Words end at camelCase and at anything but letters and digits; ids (`a3f9c2`) and other scripts are not split.
    Extensions of pages and a last segment `index` or `default` are left out.
    """
    parsed = _parse(url)
    return _words(parsed.pathname, parsed.search[1:])


def key_words(key: bytes) -> list[str]:
    """Return the `path_words` of the URLs that have this key."""
    path, _, query = _path(key).decode("ascii").partition("?")
    return _words(path, query)


def _words(path: str, query: str) -> list[str]:
    head, _, last = path.rpartition("/")
    if "." in last:
        last = _EXTENSION.sub("", last)
    if last.lower() in _INDEX:
        last = ""
    text = f"{head}/{last}"
    if query:
        text = "/".join((text, *(pair.partition("=")[2] or pair for pair in query.split("&"))))
    if "%" in text:
        text = unquote(text, errors="replace")
    return [word for run in _SPLIT.findall(text) for word in _run_words(run)]


def _run_words(run: str) -> list[str]:
    if run.isascii() and run.isalpha() and run.islower():
        return [run]  # the common case
    if not run.isascii() or len(_MIXED.findall(run)) > _TURNS_MAX:
        return [run.lower()]
    return [word.lower() for word in _CAMEL.findall(run)]


def _parse(url: str, url_bytes_max: int = URL_BYTES_MAX) -> can_ada.URL:
    if len(url) > url_bytes_max or (not url.isascii() and len(url.encode(errors="replace")) > url_bytes_max):
        raise BadUrl(f"URL longer than url_bytes_max {url_bytes_max} bytes: {_shown(url)}", _HINT)
    try:
        parsed = can_ada.parse(url)
    except (ValueError, TypeError):  # TypeError: a lone surrogate, which has no UTF-8
        raise BadUrl(f"not a URL: {_shown(url)}", _HINT) from None
    if parsed.protocol not in _PORTS:
        raise BadUrl(f"not an http or https URL: {_shown(url)}", _HINT)
    return parsed


@lru_cache(maxsize=HOSTS_CACHED)
def _host_key(host: str, port: str) -> bytes:
    """Return the host part of a key; `port` is empty for the scheme's own."""
    if not _HOST.fullmatch(host):
        raise BadUrl(f"not a host name: {_shown(host)}", _HINT)
    return codec.encode_host(host, port)


@lru_cache(maxsize=HOSTS_CACHED)
def _domain_key(host: str) -> bytes:
    return codec.reverse_labels(registered_domain(host))


def _path(key: bytes) -> bytes:
    return key[len(host_prefix(key)) :]


def _query(key: bytes) -> int:
    """Return the index of the query, or the length of the key."""
    at = key.find(b"?")
    return len(key) if at < 0 else at


@cache
def _suffixes() -> TLDExtract:
    from tldextract import TLDExtract  # takes 90 ms to import, which a command without sites need not pay

    return TLDExtract(suffix_list_urls=(), cache_dir=None)


def _shown(text: str) -> str:
    return ascii(text) if len(text) <= 40 else ascii(text[:200])[:200] + "..."
