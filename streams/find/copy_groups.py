"""Treat copies of one document in parallel trees as one candidate, and choose the copy in the old URL's tree.

Sites keep versions, mirrors and translations of a page side by side. Copies are candidates with nearly the same
document, or with similar documents on different hosts or under different version numbers. These criteria, the most
important first, decide which copy is the best:

1. It lies in the tree of the old URL: `/latest/new/a` for the old URL `/latest/a`, if the other copy is `/v1/new/a`.
2. It has the host and the version numbers of the old URL.
3. It is predicted by a rewrite rule, learned from the moves of other pages of the old tree.

Copies that equal the best copy by these criteria stay separate candidates. The best copy represents the worse copies.
"""

from __future__ import annotations

from collections.abc import Callable

from streams.find.copies import is_parallel, tree_roots, version_closeness, version_of
from streams.find.ranking import RankedCandidate, best_first
from streams.urls import host_prefix

GROUPED_MAX = 12  # number of best candidates that are compared with each other
# Minimum resemblance of copies: of those with the same host and version numbers, and of all others.
SAME_EDITION_RESEMBLANCE_MIN, OTHER_EDITION_RESEMBLANCE_MIN = 0.8, 0.2

Resemblances = Callable[[RankedCandidate, list[RankedCandidate]], list[float]]


def group_copies(old_key: bytes, ranked: list[RankedCandidate], resemblances: Resemblances) -> list[RankedCandidate]:
    """Group copies. Return the best copy of each group, with the highest score in the group, sorted by score.

    `resemblances` compares the last document of one candidate with the last document of each other candidate.
    """
    remaining, representatives = ranked[:GROUPED_MAX], []
    while remaining:
        leader, *others = remaining
        best = _choose_representative(old_key, leader, _find_copies(leader, others, resemblances))
        representatives.append(best)
        grouped_keys = {best.history.key, *(copy.history.key for copy in best.copies)}
        remaining = [candidate for candidate in remaining if candidate.history.key not in grouped_keys]
    return best_first([*representatives, *ranked[GROUPED_MAX:]])


def _find_copies(
    leader: RankedCandidate, others: list[RankedCandidate], resemblances: Resemblances
) -> list[RankedCandidate]:
    """Return the copies of the leader.

    Return the copies that have the leader's page name or document. If no copy has, return copies with other names.
    """
    key, document = leader.history.key, leader.history.pages[-1].document
    edition = _edition(key)
    same_name, other_name = [], []
    for other in others:
        other_key = other.history.key
        is_same_edition = _edition(other_key) == edition
        if other.history.pages[-1].document == document:
            same_name.append((other, 0.0))
        elif is_parallel(key, other_key):
            same_name.append(
                (other, SAME_EDITION_RESEMBLANCE_MIN if is_same_edition else OTHER_EDITION_RESEMBLANCE_MIN)
            )
        elif not is_same_edition:
            other_name.append((other, SAME_EDITION_RESEMBLANCE_MIN))
    for pairs in (same_name, other_name):
        values = resemblances(leader, [other for other, _ in pairs]) if pairs else []
        copies = [other for (other, minimum), value in zip(pairs, values, strict=True) if value >= minimum]
        if copies:
            return copies
    return []


def _edition(key: bytes) -> tuple[bytes, str | None]:
    return host_prefix(key), version_of(key)


def _choose_representative(old_key: bytes, leader: RankedCandidate, copies: list[RankedCandidate]) -> RankedCandidate:
    """Return the best candidate of a group. Its `copies` are the candidates that are worse by the criteria above."""
    if not copies:
        return leader
    members = [leader, *copies]
    keys = [member.history.key for member in members]
    fitness = [
        (
            max(_shared_tree_length(old_key, key, other) for other in keys),
            host_prefix(key) == host_prefix(old_key),
            version_closeness(old_key, key),
            member.traits.rule,
        )
        for key, member in zip(keys, members, strict=True)
    ]
    best_fitness = max(fitness)
    best = members[fitness.index(best_fitness)]
    worse = (member for member, fit in zip(members, fitness, strict=True) if fit < best_fitness)
    return best._replace(score=leader.score, copies=tuple(worse))


def _shared_tree_length(old_key: bytes, key: bytes, other: bytes) -> int:
    """Return the length of the root of the tree that contains `key` and the old URL but not `other`, or 0."""
    tree, _ = tree_roots(key, other)
    return len(tree) if key != other and old_key.startswith(tree) else 0
