"""Small random graphs of documents, and their components by brute force."""

from __future__ import annotations

from hypothesis import strategies as st

from state.families import Family
from tests.memory import MemoryStore

ids = st.integers(0, 19).map(lambda n: bytes((n * 37 % 256, n)) + bytes(14))
pairs = st.lists(st.tuples(ids, ids).filter(lambda pair: pair[0] != pair[1]), max_size=40)


def components(joined: list[tuple[bytes, bytes]]) -> dict[bytes, set[bytes]]:
    """Return the nodes of each connected component by its smallest node."""
    groups: list[set[bytes]] = []
    for pair in joined:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touched] + [set(pair).union(*touched)]
    return {min(group): group for group in groups}


def listed(store: MemoryStore) -> dict[bytes, set[bytes]]:
    """Return the root and the stored members of each cluster, by root."""
    clusters: dict[bytes, set[bytes]] = {}
    for key, _ in store.scan(Family.MEMBERS):
        clusters.setdefault(key[:16], {key[:16]}).add(key[16:])
    return clusters
