"""Turn pairs of replicated directories into results: only the topmost pairs, with URLs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import product
from typing import Any

from streams.analyses.replicas.replica import Replica
from streams.analyses.sql_engine import SqlEngine
from streams.export.hashes import host_hash
from streams.urls import key_url

# The prefixes of the URL keys of a and b, the pages below each, the common paths, a's containment in b, b's in a.
Pair = tuple[Any, ...]


def replicas_of(pairs: Iterable[Pair], insecure_hosts: set[int]) -> list[Replica]:
    """Return the pairs that are not below another pair, sorted. URLs of `insecure_hosts` start with http."""
    pairs = list(pairs)
    prefixes = {pair[:2] for pair in pairs} | {pair[1::-1] for pair in pairs}
    inner_copies: defaultdict[str, set[str]] = defaultdict(set)
    for a, b in prefixes:
        if b.startswith(a):
            inner_copies[a].add(b)

    def is_outside_inner_copies(prefix: str, directory: str) -> bool:
        """Return whether a prefix below a directory is not in one of the directory's inner copies."""
        return inner_copies[directory].isdisjoint(_with_ancestors(prefix)) if directory in inner_copies else True

    def is_below_another(a: str, b: str) -> bool:
        return any(
            (outer_a, outer_b) != (a, b)
            and (outer_a, outer_b) in prefixes
            and is_outside_inner_copies(a, outer_a)
            and is_outside_inner_copies(b, outer_b)
            for outer_a, outer_b in product(_with_ancestors(a), _with_ancestors(b))
        )

    return sorted(_replica(pair, insecure_hosts) for pair in pairs if not is_below_another(*pair[:2]))


def http_only_hosts(engine: SqlEngine) -> set[int]:
    """Return the hashes of the hosts without a page that was captured over https."""
    return {host for (host,) in engine.rows("SELECT host FROM host_pages WHERE https = 0")}


def _with_ancestors(prefix: str) -> list[str]:
    """Return a prefix that ends with `/`, and the prefixes of all directories above it."""
    return [prefix[: position + 1] for position, character in enumerate(prefix) if character == "/"]


def _replica(pair: Pair, insecure_hosts: set[int]) -> Replica:
    prefix_a, prefix_b, pages_a, pages_b, common, a_in_b, b_in_a = pair
    sides = [
        (_url(prefix_a, insecure_hosts), int(pages_a), a_in_b),
        (_url(prefix_b, insecure_hosts), int(pages_b), b_in_a),
    ]
    (a, pages_a, a_in_b), (b, pages_b, b_in_a) = sorted(sides)
    return Replica(
        a=a,
        b=b,
        pages=(pages_a, pages_b),
        common=int(common),
        containment=(round(float(a_in_b), 4), round(float(b_in_a), 4)),
    )


def _url(prefix: str, insecure_hosts: set[int]) -> str:
    key = prefix.encode()
    return key_url(key, "http" if host_hash(key) in insecure_hosts else "https")
