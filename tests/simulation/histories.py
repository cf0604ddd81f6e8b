"""Run simulations by seed and check their final state; `python -m tests.simulation KIND SEED` replays one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from itertools import groupby
from typing import Any
from unittest.mock import patch

from state import meta, sweeps
from state.changes import Changes, merge
from state.codecs import decision_row, posting_list
from state.families import Family
from state.model import ID_BYTES, Decision, Sweep, SweepState
from state.scheme import Scheme
from streams import forgetting
from streams.engine.embedded import Engine
from streams.forgetting import deferral, removal
from streams.kafka.rows.row_query import RowQuery, run_query
from streams.kafka.rows.sharded_store import ShardedStore
from streams.operators import join
from streams.operators.messages import SketchedPage
from streams.operators.routing import Message
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
# The families whose rows do not depend on the order of events. `host_counts` and `clusters` compare the others that
# queries read.
FACTS = [
    Family.CAPTURES,
    Family.DOCUMENTS,
    Family.TEXTS,
    Family.LOCATIONS,
    Family.BANDS,
    Family.EDGES,
    Family.SAMPLES,
    Family.WORDS,
    Family.DECISIONS,
    Family.LINK_LISTS,
    Family.LINK_CHUNKS,
    Family.LINK_TARGETS,
]
# Each partition has the chunks of its pages, so several can have the same chunk.
SHARED = frozenset({Family.EDGES, Family.LINK_CHUNKS, Family.LINK_TARGETS})


def replayable(history: Callable[[int], None]) -> Callable[[int], None]:
    """Add the command that replays a history to its failures."""

    @wraps(history)
    def run(seed: int) -> None:
        try:
            history(seed)
        except Exception as error:
            error.add_note(f"replay: .venv/bin/python -m tests.simulation {history.__name__} {seed}")
            raise

    return run


def embedded(pages: list[SketchedPage], batch: int, store: MemoryStore | None = None) -> MemoryStore:
    """Return the state after a run of the embedded engine, which continues a given state."""
    store = store or MemoryStore()
    engine = Engine(store, SETTINGS)
    for number, of_sweep in groupby(pages, key=lambda page: page.capture.sweep):
        sweep_pages = list(of_sweep)
        for at in range(0, len(sweep_pages), batch):
            engine.commit(engine.prepare(_sweep(number), sweep_pages[at : at + batch], []))
    return store


def facts(partitions: list[MemoryStore], family: Family) -> dict[bytes, bytes]:
    """Return the rows of a family in all partitions; assert that keys have one owner, or equal values if `SHARED`."""
    facts_by_key: dict[bytes, bytes] = {}
    for rows in partitions:
        for key, value in rows.scan(family):
            assert family in SHARED or key not in facts_by_key, f"{family}: {key!r} has two owners"
            assert facts_by_key.get(key, value) == value, f"{family}: {key!r} differs between owners"
            facts_by_key[key] = merge(family, facts_by_key.get(key), value)
    return facts_by_key


def host_counts(partitions: list[MemoryStore]) -> Counter[tuple[int, bytes]]:
    """Return the number of captures by sweep and host."""
    counts: Counter[tuple[int, bytes]] = Counter()
    for rows in partitions:
        for number in sweeps.sweep_numbers_with_host_counts(rows):
            counts.update({(number, host): n for host, n in sweeps.captures_per_host(rows, number).items()})
    return +counts


def assert_equal(final_partitions: list[MemoryStore], simulation: Simulation, expected: MemoryStore) -> None:
    """Assert that the partitions, and those rebuilt from the changelogs, have the facts and clusters of `expected`."""
    for partitions in (final_partitions, simulation.rebuild()):
        for family in FACTS:
            assert facts(partitions, family) == dict(expected.scan(family)), family
        assert host_counts(partitions) == host_counts([expected])
        clusters_by_root = clusters(partitions)
        assert clusters_by_root == clusters([expected])
        assert members(partitions, set(clusters_by_root)) == clusters_by_root


@replayable
def pages(seed: int) -> None:
    """Process pages and decisions with all operators, without limits: the state equals that of the embedded engine."""
    rng = random.Random(f"pages {seed}")
    ordered = rng.random() < 0.5
    feed = corpus.pages(rng, revisits=ordered)
    expected = embedded(feed, rng.choice([1, 5, 100]))
    if not ordered:
        rng.shuffle(feed)
    rules = Rules(SETTINGS.scheme, rng.randint(1, 16), THRESHOLD)
    decisions = corpus.decisions(rng)
    expected.write(latest(decisions))
    messages: list[Message] = list(feed)
    for decision in decisions:
        messages.insert(rng.randint(0, len(messages)), decision)
    simulation = Simulation(seed, messages, rules, ordered=ordered)
    final_partitions = simulation.run()
    assert not +simulation.limits
    assert_equal(final_partitions, simulation, expected)


def latest(decisions: list[Decision]) -> Changes:
    """Return the rows of the latest decision about each URL."""
    changes = Changes()
    for decision in sorted(decisions, key=lambda decision: (decision.time, decision_row.encode(decision))):
        changes.put(Family.DECISIONS, decision_row.encode_key(decision.key), decision_row.encode(decision))
    return changes


@replayable
def cancelled(seed: int) -> None:
    """Cancel a sweep while former owners still have batches: the state equals that of the embedded engine."""
    rng = random.Random(f"cancelled {seed}")
    feed = corpus.pages(rng, revisits=False)
    victim = rng.choice(sorted({page.capture.sweep for page in feed}))
    before = [page for page in feed if page.capture.sweep <= victim]
    after = feed[len(before) :]
    expected = embedded(before, 100)
    meta.claim_scheme(expected, SETTINGS.scheme)
    removals = forgetting.cancel_sweep(expected, _sweep(victim))
    forgetting.commit_removals(removals, expected.write)
    embedded(after, 100, expected)
    simulation = Simulation(
        seed, before, Rules(SETTINGS.scheme, rng.randint(1, 8), THRESHOLD), ordered=rng.random() < 0.5
    )
    simulation.announces_claims = True
    # Former owners have batches when the sweep is cancelled, and continue them afterwards.
    simulation.faults = simulation.faults._replace(budget=30, chance=0.2, zombie=1.0, zombie_speed=0.001, wipe=0.0)
    simulation.run(until_drained=True)
    _cancel(simulation, victim)
    simulation.input_messages += after[::-1]
    final_partitions = simulation.run()
    assert_equal(final_partitions, simulation, expected)


def _sweep(number: int) -> Sweep:
    return Sweep(number=number, name=str(number), state=SweepState.OPEN, opened_time=0)


def _cancel(simulation: Simulation, victim: int) -> None:
    """Remove the captures of a sweep, as a worker does once all messages in flight are processed."""
    simulation.cancelled_sweeps.add(victim)
    store = sharded_store(simulation, {})
    rng = simulation.rng
    with (
        patch.object(removal, "CAPTURES_PER_REMOVAL", rng.choice([1, 3, 1_000])),
        patch.object(deferral, "LARGE_CLUSTER_MEMBERS", rng.choice([1, 4, 32])),
    ):
        removals = forgetting.cancel_sweep(store, _sweep(victim), only_writer=False)
        forgetting.commit_removals(removals, lambda changes: simulation.retract(store.divide(changes)))


def sharded_store(simulation: Simulation, sweep_rows: Mapping[bytes, bytes]) -> ShardedStore:
    """Return a store that reads the partitions of a simulation at their owners."""
    partitions = range(simulation.rules.partitions)
    metadata = MemoryStore()
    meta.claim_scheme(metadata, SETTINGS.scheme)

    def query(query: RowQuery) -> Any:
        in_meta = query.family is Family.META
        return run_query({number: metadata if in_meta else simulation.rows(number) for number in partitions}, query)

    return ShardedStore(
        "simulation",
        SETTINGS.scheme,
        dict.fromkeys(partitions, query),
        partition_count=len(partitions),
        read_sweep_rows=lambda: sweep_rows,
    )


@replayable
def joins(seed: int) -> None:
    """Process many unions of few documents: the components equal brute force."""
    rng = random.Random(f"joins {seed}")
    nodes = [rng.randbytes(ID_BYTES) for _ in range(rng.randint(2, 80))]
    unions = [join.union(*rng.sample(nodes, 2)) for _ in range(rng.randint(1, 2 * len(nodes)))]
    simulation = Simulation(seed, unions, Rules(Scheme(), rng.randint(1, 16)), ordered=False)
    final_partitions = simulation.run()
    expected = components([(u.larger, u.smaller) for u in unions])
    for partitions in (final_partitions, simulation.rebuild()):
        clusters_by_root = clusters(partitions)
        assert {root: clusters_by_root.get(root) for root in expected} == expected
        assert members(partitions, set(expected)) == expected


def components(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, set[bytes]]:
    """Return the connected components by their smallest node, by brute force."""
    groups: list[set[bytes]] = []
    for pair in pairs:
        touched = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touched] + [set(pair).union(*touched)]
    return {min(group): group for group in groups}


@replayable
def limited(seed: int) -> None:
    """Process pages with low limits: edges may be missing if a limit was reached, and clusters follow the edges."""
    rng = random.Random(f"limited {seed}")
    feed = corpus.pages(rng, revisits=False)
    expected = embedded(feed, 100)
    rng.shuffle(feed)
    postings_max = rng.randint(1, 3)
    rules = Rules(
        SETTINGS.scheme, rng.randint(1, 16), THRESHOLD, postings_max=postings_max, candidates_max=rng.randint(1, 2)
    )
    simulation = Simulation(seed, feed, rules, ordered=False)
    final_partitions = simulation.run()
    for family in (Family.CAPTURES, Family.DOCUMENTS, Family.LOCATIONS, Family.SAMPLES, Family.WORDS):
        assert facts(final_partitions, family) == dict(expected.scan(family)), family
    for bucket, value in facts(final_partitions, Family.BANDS).items():
        smallest = posting_list.decode(expected.get(Family.BANDS, bucket) or b"")[:postings_max]
        assert posting_list.decode(value)[:postings_max] == smallest, (
            "a full bucket keeps its smallest prefixes, in any order of events"
        )
    edges = facts(final_partitions, Family.EDGES)
    assert edges.items() <= dict(expected.scan(Family.EDGES)).items()
    clusters_by_root = clusters(final_partitions)
    assert clusters_by_root == components_of(final_partitions, edges)
    assert members(final_partitions, set(clusters_by_root)) == clusters_by_root
    if edges != dict(expected.scan(Family.EDGES)):
        assert +simulation.limits, "an edge is missing, but no limit was reached"


def components_of(partitions: list[MemoryStore], edges: dict[bytes, bytes]) -> dict[bytes, set[bytes]]:
    documents = {key for rows in partitions for key, _ in rows.scan(Family.DOCUMENTS)}
    alone = [(document, document) for document in documents]
    return components([*alone, *((key[:ID_BYTES], key[ID_BYTES:]) for key in edges)])
