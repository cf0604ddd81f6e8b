"""Tests of streams/analyses/mirrors/host_pairs.py and bigrams.py: stage I."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streams.analyses.mirrors import bigrams
from streams.analyses.mirrors.host_pairs import create_pairs
from streams.analyses.sql_engine import DuckDb
from streams.export.schema import MANIFEST_FILE


@pytest.fixture
def engine(tmp_path):
    (tmp_path / MANIFEST_FILE).write_text("{}")
    with DuckDb(tmp_path, memory_mib=128, threads=1) as engine:
        yield engine


def pairs(engine: DuckDb, sample: list[tuple[int, int, int]], hosts_max: int = 20) -> list[tuple[int, int]]:
    hosts, paths, clusters = zip(*sample, strict=True)
    engine.insert("sample", pa.table({"host": hosts, "path": paths, "cluster": clusters}))
    create_pairs(engine, "sample", "pairs", hosts_max)
    return sorted(engine.rows("SELECT a, b FROM pairs"))


def test_one_path_with_the_same_cluster_or_three_paths(engine):
    sample = [(1, 10, 5), (2, 10, 5), (3, 10, 6), (3, 11, 7), (4, 11, 8)]
    assert pairs(engine, sample) == [(1, 2)]
    sample = [(host, path, host) for host, paths in ((1, "abc"), (2, "abcd"), (3, "ab")) for path in map(ord, paths)]
    assert pairs(engine, sample) == [(1, 2)]


def test_features_of_many_hosts_are_chained(engine):
    sample = [(host, path, path) for host in range(100) for path in range(5)]
    assert pairs(engine, sample, 20) == [(a, b) for a in range(100) for b in (a + 1, a + 2) if b < 100]
    assert len(pairs(engine, sample, 100)) == 100 * 99 // 2


def test_features_of_the_paper():
    key = "org,example)/Conferences/d299/AdvanceProgram.html?q=1"
    assert list(bigrams.features(key)) == [("conferences d* 0", 2), ("d* advanceprogram 1", 3)]
    assert list(bigrams.features("org,example)/a-b/index.html")) == [("a b 0", 1)]
    assert list(bigrams.features("org,example)/")) == []


def test_the_paper_pairs_hosts_by_rare_bigrams(engine):
    common = [(host, f"org,host{host})/about/us/team.html") for host in range(30)]
    deep = [(host, f"org,host{host})/manual/chapter/section.html") for host in (3, 4)]
    hosts, url_keys = zip(*common, *deep, strict=True)
    engine.insert("sample", pa.table({"host": hosts, "url_key": url_keys}))
    bigrams.create_pairs(engine, "sample", "pairs")
    assert engine.rows("SELECT a, b FROM pairs") == [
        (3, 4)
    ]  # weights 2/2 and 3/2; the features of 30 hosts are dropped
