"""What a simulation of one seed is fed, and what its end must equal. `python -m tests.simulation KIND SEED` replays."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import wraps

from state.changes import merge
from state.codecs import posting_list
from state.families import Family
from state.model import ID_BYTES, Sweep, SweepState
from state.scheme import Scheme
from streams.engine.embedded import Engine
from streams.operators import join
from streams.operators.messages import SketchedPage
from streams.settings import Settings, load
from tests.memory import MemoryStore
from tests.simulation import corpus
from tests.simulation.partition import Rules, clusters, members
from tests.simulation.simulator import Simulation

THRESHOLD = 0.5
SETTINGS: Settings = load(
    overrides={
        "scheme": {"bands": corpus.SCHEME.bands, "rows": corpus.SCHEME.rows},
        "policy": {"threshold": THRESHOLD},
        "limits": {"bucket_postings_max": 10_000, "candidates_max": 10_000},
    }
)
# All that the pages say. Texts are left out: of two pages of one document either text may be kept.
FACTS = [
    Family.CAPTURES,
    Family.DOCUMENTS,
    Family.LOCATIONS,
    Family.BANDS,
    Family.EDGES,
    Family.SAMPLES,
    Family.WORDS,
]


def replayable(history: Callable[[int], None]) -> Callable[[int], None]:
    """Say how to see a failure again."""

    @wraps(history)
    def run(seed: int) -> None:
        try:
            history(seed)
        except Exception as error:
            error.add_note(f"replay: .venv/bin/python -m tests.simulation {history.__name__} {seed}")
            raise

    return run


def embedded(pages: list[SketchedPage], batch: int) -> MemoryStore:
    """The state after a plain run of the embedded engine."""
    store = MemoryStore()
    engine = Engine(store, SETTINGS)
    for at in range(0, len(pages), batch):
        by_sweep = Sweep(number=1, name="one", state=SweepState.OPEN, opened=0)
        engine.commit(engine.apply(by_sweep, pages[at : at + batch], []))
    return store


def facts(partitions: list[MemoryStore], family: Family) -> dict[bytes, bytes]:
    """One family of all partitions; where two hold a key, they must hold the same."""
    found: dict[bytes, bytes] = {}
    for rows in partitions:
        for key, value in rows.scan(family):
            assert family is Family.EDGES or key not in found, f"{family}: {key!r} has two owners"
            assert found.get(key, value) == value, f"{family}: {key!r} differs between owners"
            found[key] = merge(family, found.get(key), value)
    return found


@replayable
def pages(seed: int) -> None:
    """Pages through all operators, limits out of reach: everything equals the embedded engine's state."""
    rng = random.Random(f"pages {seed}")
    ordered = rng.random() < 0.5
    feed = corpus.pages(rng, revisits=ordered)
    expected = embedded(feed, rng.choice([1, 5, 100]))
    if not ordered:
        rng.shuffle(feed)
    rules = Rules(SETTINGS.scheme, rng.randint(1, 16), THRESHOLD)
    simulation = Simulation(seed, feed, rules, ordered=ordered)
    ended = simulation.run()
    assert not +simulation.limits
    for partitions in (ended, simulation.rebuilt()):
        for family in FACTS:
            assert facts(partitions, family) == dict(expected.scan(family)), family
        found = clusters(partitions)
        assert found == clusters([expected])
        assert members(partitions, set(found)) == found


@replayable
def joins(seed: int) -> None:
    """Unions alone, many of few documents: components equal brute force."""
    rng = random.Random(f"joins {seed}")
    nodes = [rng.randbytes(ID_BYTES) for _ in range(rng.randint(2, 80))]
    unions = [join.union(*rng.sample(nodes, 2)) for _ in range(rng.randint(1, 2 * len(nodes)))]
    simulation = Simulation(seed, unions, Rules(Scheme(), rng.randint(1, 16)), ordered=False)
    ended = simulation.run()
    expected = components([(u.larger, u.smaller) for u in unions])
    for partitions in (ended, simulation.rebuilt()):
        found = clusters(partitions)
        assert {root: found.get(root) for root in expected} == expected
        assert members(partitions, set(expected)) == expected


def components(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, set[bytes]]:
    """Connected components by their smallest node, by brute force."""
    groups: list[set[bytes]] = []
    for pair in pairs:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touched] + [set(pair).union(*touched)]
    return {min(group): group for group in groups}


@replayable
def limited(seed: int) -> None:
    """Limits that bite: what is not bounded stays the same, what is says so, and no cluster is wrong."""
    rng = random.Random(f"limited {seed}")
    feed = corpus.pages(rng, revisits=False)
    expected = embedded(feed, 100)
    rng.shuffle(feed)
    most = rng.randint(1, 3)
    rules = Rules(SETTINGS.scheme, rng.randint(1, 16), THRESHOLD, postings_max=most, candidates_max=rng.randint(1, 2))
    simulation = Simulation(seed, feed, rules, ordered=False)
    ended = simulation.run()
    for family in (Family.CAPTURES, Family.DOCUMENTS, Family.LOCATIONS, Family.SAMPLES, Family.WORDS):
        assert facts(ended, family) == dict(expected.scan(family)), family
    for bucket, value in facts(ended, Family.BANDS).items():
        least = posting_list.decode(expected.get(Family.BANDS, bucket) or b"")[:most]
        assert posting_list.decode(value)[:most] == least, (
            "a full bucket keeps its smallest prefixes, whatever came first"
        )
    edges = facts(ended, Family.EDGES)
    assert edges.items() <= dict(expected.scan(Family.EDGES)).items()
    found = clusters(ended)
    assert found == components_of(ended, edges)
    assert members(ended, set(found)) == found
    if edges != dict(expected.scan(Family.EDGES)):
        assert +simulation.limits, "an edge is missing and no limit says that it bit"


def components_of(partitions: list[MemoryStore], edges: dict[bytes, bytes]) -> dict[bytes, set[bytes]]:
    documents = {key for rows in partitions for key, _ in rows.scan(Family.DOCUMENTS)}
    alone = [(document, document) for document in documents]
    return components([*alone, *((key[:ID_BYTES], key[ID_BYTES:]) for key in edges)])
