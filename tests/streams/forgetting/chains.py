"""A chain of similar texts, and helpers of the tests of forgetting."""

from __future__ import annotations

import random

from state.check import check
from state.families import Family
from state.store import Store
from streams.sketch.sketcher import Sketcher
from tests.samples import settings, variant, words

# With this many bands of one row, no pair at the threshold is missed.
SETTINGS = settings({"scheme": {"bands": 64, "rows": 1}, "policy": {"threshold": 0.5}})
SKETCHER = Sketcher(SETTINGS.scheme)


def chain(rng: random.Random, length: int, changes: int = 4) -> list[str]:
    """Return versions of a text: the further apart two versions are, the less similar they are."""
    versions = [words(rng, 60)]
    while len(versions) < length:
        versions.append(variant(rng, versions[-1], changes))
    return [" ".join(version) for version in versions]


CHAIN = chain(random.Random(1), 7)
IDS = [SKETCHER.sketch(text).document for text in CHAIN]
URLS = [f"https://a.org/{n}" for n in range(7)]


def rows_by_family(store: Store) -> dict[Family, dict[bytes, bytes]]:
    return {family: dict(store.scan(family)) for family in Family if family is not Family.META}


def is_sound(store: Store) -> bool:
    return list(check(store, postings_max=32)) == []
