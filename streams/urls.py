"""Convert URLs to keys in SURT order, in which a host, a domain or a directory is one range of keys.

    https://ci.flink.apache.org:8080/2019/05/x.html?q=1#top
      -> org,apache,flink,ci:8080)/2019/05/x.html?q=1

A key consists of the reversed host labels, the port if it is not the default, a `)` that ends the host, and the path
and query. Keys have no scheme, user info or fragment, so the http and https URLs of a page share one key. IP
addresses are not reversed (`192.0.2.7)/`, `[2001:db8::1])/`). Keys are ASCII without bytes below 0x21, so NUL can
terminate a key. can_ada (WHATWG URL) parses and normalises URLs, including IDNA. Host names may contain only letters,
digits, `.`, `_` and `-`: the standard also allows `,` and `)`, which DNS lacks and which would make keys ambiguous.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

import can_ada

from state.codecs import url_key as codec
from streams.errors import BadUrl
from streams.public_suffixes import count_suffix_labels

URL_BYTES_MAX = 60_000  # the maximum of the `url_bytes_max` setting, so that queries accept every URL in a state
HOST_CACHE_SIZE = 65_536
_PROTOCOLS = frozenset({"http:", "https:"})
_HOST = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\]", re.ASCII)
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)
_HINT = "give an http:// or https:// URL with a host name"


def url_key(url: str, url_bytes_max: int = URL_BYTES_MAX) -> bytes:
    """Return the key of a URL. Raise BadUrl if the URL is too long, or is not an http or https URL with a host.

    `url_bytes_max` limits both the URL and its key, which is longer if characters are percent-encoded.
    """
    parsed = _parse(url, url_bytes_max)
    key = _host_key(parsed.hostname, parsed.port) + (parsed.pathname + parsed.search).encode("ascii")
    if len(key) > url_bytes_max:
        raise BadUrl(f"URL key of {len(key)} bytes exceeds url_bytes_max = {url_bytes_max}: {_shorten(url)}", _HINT)
    return key


def key_url(key: bytes, scheme: str = "https") -> str:
    """Return a URL with this key. Raise BadUrl if the bytes are not a key.

    `url_key(key_url(key, scheme)) == key` holds unless the key's port is the default port of `scheme`.
    """
    host_prefix(key)  # raises BadUrl
    if not key.isascii():
        raise BadUrl(f"not a URL key: {key[:80]!r} is not ASCII", "create keys with url_key()")
    return codec.url_of(key, https=scheme == "https")


def key_host(key: bytes, *, with_port: bool = False) -> str:
    """Return the host name of a key. If `with_port` is true and the key contains a port, append it."""
    name, port = codec.decode_host(host_prefix(key))
    return f"{name}:{port}" if with_port and port else name


def host_prefix(key: bytes) -> bytes:
    """Return the part of a key up to and including `)`: the host and port. Raise BadUrl if there is no host."""
    prefix = codec.host_prefix(key)
    if len(prefix) < 2:
        raise BadUrl(f"not a URL key: {key[:80]!r} has no host that ends with ')'", "create keys with url_key()")
    return prefix


def directory_prefix(key: bytes) -> bytes:
    """Return the prefix of all keys in the same directory, up to and including the last `/` of the path."""
    without_query = key.partition(b"?")[0]
    return without_query[: without_query.rfind(b"/") + 1]


def domain_key(key: bytes) -> bytes:
    """Return the registered domain in key order (`org,apache`), which all hosts and ports of a site share.

    Do not scan with it as a prefix, as other domains also start with it (`org,apachecon)`): use `domain_ranges`.
    """
    return _domain_key_of_host(key_host(key))


def domain_ranges(key: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """Return the two ranges [start, stop) that together contain exactly the keys of the same registered domain.

    After the domain, keys continue with `)` (the domain itself) or `,` (its subdomains) in the first range, and with
    `:` (a port) in the second. If the domain is a public suffix (`police.uk`), names below it are not included.
    """
    host = key_host(key)
    domain = _domain_key_of_host(host)
    stop = b"*" if _is_public_suffix(host) else b"-"  # the bytes after `)` and after `,`
    return (domain + b")", domain + stop), (domain + b":", domain + b";")


@lru_cache(maxsize=HOST_CACHE_SIZE)
def registered_domain(host: str) -> str:
    """Return the registered domain of a host (`docs.a.co.uk` -> `a.co.uk`).

    An IP address, a name without dots or a public suffix is returned unchanged. The public suffix list is the one
    shipped with tldextract; it is never downloaded.
    """
    if "." not in host or host[0] == "[" or _IPV4.fullmatch(host):
        return host
    labels = host.rstrip(".").split(".")
    suffix_labels = count_suffix_labels(labels)
    if not suffix_labels:  # the default rule `*` applies to unlisted top-level domains
        return ".".join(host.split(".")[-2:])
    return ".".join(labels[-suffix_labels - 1 :]) if suffix_labels < len(labels) else host


@lru_cache(maxsize=HOST_CACHE_SIZE)
def _is_public_suffix(host: str) -> bool:
    """Return whether a host is a public suffix, so that each name below it has a different owner."""
    if "." not in host or host[0] == "[" or _IPV4.fullmatch(host):
        return False
    labels = host.rstrip(".").split(".")
    return count_suffix_labels(labels) == len(labels)


_ALPHANUMERIC = re.compile(r"[^\W_]+")
# HTMLParser -> HTML Parser, ModelAdmin -> Model Admin; utf8, v2 and 3d are not split.
_CAMEL_CASE_WORD = re.compile(r"[A-Z]+\d*(?![a-z])|[A-Z]?[a-z]+\d*|\d+[a-z]?(?![a-z])|\d+")
_LETTER_DIGIT_CHANGE = re.compile(r"(?<=\d)(?=[^\W\d])|(?<=[^\W\d])(?=\d)")
_EXTENSION = re.compile(r"\.(?:[xs]?html?|php\d?|aspx?|jspx?|cgi|cfm|rst|md|txt)$", re.IGNORECASE)
_INDEX_NAMES = frozenset({"index", "default"})
_LETTER_DIGIT_CHANGES_MAX = 2  # a run of letters and digits with more changes is an id, not words


def path_words(url: str) -> list[str]:
    """Return the words of a URL's path and query values, in order and lower case. Raise BadUrl if `url` is invalid.

    The path is split at characters other than letters and digits. CamelCase is split too, except in ids (`a3f9c2`)
    and non-ASCII words. Extensions such as `.html` and a last segment `index` or `default` are omitted.
    """
    parsed = _parse(url)
    return _split_path(parsed.pathname, parsed.search[1:])


def key_words(key: bytes) -> list[str]:
    """Return the `path_words` of the URLs with this key."""
    path, _, query = key[len(host_prefix(key)) :].decode("ascii").partition("?")
    return _split_path(path, query)


def _split_path(path: str, query: str) -> list[str]:
    folder, _, name = path.rpartition("/")
    if "." in name:
        name = _EXTENSION.sub("", name)
    if name.lower() in _INDEX_NAMES:
        name = ""
    text = f"{folder}/{name}"
    if query:  # the values of parameters, and the names of parameters without a value
        text = "/".join((text, *(pair.partition("=")[2] or pair for pair in query.split("&"))))
    if "%" in text:
        text = unquote(text, errors="replace")
    return [word for run in _ALPHANUMERIC.findall(text) for word in _split_run(run)]


def _split_run(run: str) -> list[str]:
    if run.isascii() and run.isalpha() and run.islower():
        return [run]  # the common case
    if not run.isascii() or len(_LETTER_DIGIT_CHANGE.findall(run)) > _LETTER_DIGIT_CHANGES_MAX:
        return [run.lower()]
    return [word.lower() for word in _CAMEL_CASE_WORD.findall(run)]


def _parse(url: str, url_bytes_max: int = URL_BYTES_MAX) -> can_ada.URL:
    if len(url) > url_bytes_max or (not url.isascii() and len(url.encode(errors="replace")) > url_bytes_max):
        raise BadUrl(f"URL longer than url_bytes_max = {url_bytes_max} bytes: {_shorten(url)}", _HINT)
    try:
        parsed = can_ada.parse(url)
    except (ValueError, TypeError):  # TypeError: a lone surrogate cannot be encoded in UTF-8
        raise BadUrl(f"not a URL: {_shorten(url)}", _HINT) from None
    if parsed.protocol not in _PROTOCOLS:
        raise BadUrl(f"not an http or https URL: {_shorten(url)}", _HINT)
    return parsed


@lru_cache(maxsize=HOST_CACHE_SIZE)
def _host_key(host: str, port: str) -> bytes:
    """Return the host part of a key; `port` is empty for the default port of the scheme."""
    if not _HOST.fullmatch(host):
        raise BadUrl(f"not a host name: {_shorten(host)}", _HINT)
    return codec.encode_host(host, port)


@lru_cache(maxsize=HOST_CACHE_SIZE)
def _domain_key_of_host(host: str) -> bytes:
    return codec.reverse_labels(registered_domain(host))


def _shorten(text: str) -> str:
    return ascii(text) if len(text) <= 40 else ascii(text[:200])[:200] + "..."
