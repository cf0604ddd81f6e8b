"""Combine mirrored hosts into groups, and recognise names that belong to one host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from state.codecs.url_key import decode_host


def groups_of(pairs: Iterable[tuple[str, str]], pages: Mapping[str, int]) -> dict[str, str]:
    """Return the group of each host: the connected component, named after its host with the most pages."""
    parents: dict[str, str] = {}

    def root(host: str) -> str:
        while (parent := parents.setdefault(host, host)) != host:
            parents[host] = parents[parent]
            host = parents[host]
        return host

    for a, b in pairs:
        first, second = sorted((root(a), root(b)), key=lambda host: (-pages.get(host, 0), host))
        parents[second] = first
    return {host: root(host) for host in sorted(parents)}


def alias_of(a: str, b: str) -> str | None:
    """Return how two names of one host differ: "www", "port" or "www and port"; None for different hosts."""
    (name_a, port_a), (name_b, port_b) = decode_host(a.encode()), decode_host(b.encode())
    if name_a.removeprefix("www.") != name_b.removeprefix("www."):
        return None
    differences = ["www"] * (name_a != name_b) + ["port"] * (port_a != port_b)
    return " and ".join(differences) or None
