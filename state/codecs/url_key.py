"""A URL key: a URL in SURT order without its scheme, so that a host, a domain or a directory is one range of keys.

    org,example,www:8080)/path?query
    ───────┬─────── ─┬─ ─┬──────────
           │         │   path and query
           │         port, unless it is the scheme's default
           host labels, reversed; IP addresses are not reversed: `192.0.2.7)/`, `[2001:db8::1])/`

The host always ends with `)`. A key is ASCII without bytes below 0x21, so a NUL can terminate it in a row key. This
module only encodes and decodes; `streams.urls` parses URLs into keys.
"""

from __future__ import annotations

import re
from functools import lru_cache

HOST_END = b")"
_IPV4 = re.compile(r"\d+\.\d+\.\d+\.\d+", re.ASCII)


def encode_host(host: str, port: str = "") -> bytes:
    """Return the host prefix of a key, up to and including `)`. An empty `port` means the scheme's default."""
    assert not set(host) & set(",)/\0"), "these characters in a host name would make keys ambiguous"
    return reverse_labels(host) + (f":{port}".encode() if port else b"") + HOST_END


def reverse_labels(host: str) -> bytes:
    """Return a host name in key order: `www.example.org` becomes `org,example,www`. IP addresses stay unchanged."""
    if host[0] == "[" or _IPV4.fullmatch(host):
        return host.encode("ascii")
    return ",".join(reversed(host.rstrip(".").split("."))).encode("ascii")


def host_prefix(key: bytes) -> bytes:
    """Return the part of a key that all keys of its host share: up to and including `)`; empty without a `)`."""
    return key[: key.find(HOST_END) + 1]


@lru_cache(maxsize=65_536)
def decode_host(prefix: bytes) -> tuple[str, str]:
    """Return the host name and the port of a host prefix. The port is empty if it is the scheme's default."""
    host = prefix.removesuffix(HOST_END).decode("utf-8", "surrogateescape")
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit():  # the colons of an IPv6 address are inside its brackets
        name, port = host, ""
    return ".".join(reversed(name.split(","))), port


def url_of(key: bytes, *, https: bool) -> str:
    """Return the URL of a key, without the scheme's default port."""
    prefix = host_prefix(key)
    host, port = decode_host(prefix)
    path = key[len(prefix) :].decode("utf-8", "surrogateescape")
    return f"http{'s' if https else ''}://{host}{':' if port else ''}{port}{path}"
