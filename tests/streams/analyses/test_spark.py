"""The analyses have the same results on Spark as on DuckDB. `make test-spark` installs Spark and runs these tests."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streams import settings
from streams.analyses import replicas
from streams.analyses.avoid.check_avoid import check_avoid
from streams.analyses.avoid.compute_avoid import compute_avoid
from streams.analyses.changes.compute_changes import compute_host_changes
from streams.analyses.collections.compute_collections import compute as compute_collections
from streams.analyses.current_pages import COLUMNS, create_pages
from streams.analyses.mirrors import METHODS
from streams.analyses.mirrors import compute as compute_mirrors
from streams.analyses.resemblance import create_comparisons
from streams.analyses.sql_engine import DuckDb, SqlEngine
from streams.errors import InputError
from tests import analysis_data
from tests.analysis_data import page, prose

pytestmark = pytest.mark.long
pytest.importorskip("pyspark", reason="installed by `make test-spark`")

from pyspark.sql import SparkSession  # noqa: E402

from streams.analyses.spark_engine import Spark  # noqa: E402


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("lostfound")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data set with two mirrors, a third site, a redirect and an error, in two sweeps."""
    pages = []
    for number in range(24):
        text = prose(number)
        for host in ("a", "b"):
            url = f"https://{host}.example/docs/part{number % 3}/page{number}.html"
            links = [
                f"https://{host}.example/docs/part{number % 3}/page{(number + step) % 24}.html" for step in (3, 6)
            ]
            pages.append(page(url, text if number % 4 else f"{text} {host}", links=links))
    pages += [page(f"https://c.example/{number}", prose("c", number)) for number in range(10)]
    pages += [
        page("https://c.example/0", prose("c", 0) + " changed", sweep=2),
        page("https://c.example/1", sweep=2, status=404),
    ]
    folder = tmp_path_factory.mktemp("data") / "an {export}"
    return analysis_data.write_data_set(folder, pages, parts=3)


@pytest.fixture
def engines(session: SparkSession, data_set: Path, tmp_path: Path) -> Iterator[list[SqlEngine]]:
    with (
        DuckDb(data_set, memory_mib=256, threads=1) as duck_db,
        Spark(data_set, session, tmp_path) as spark,
    ):
        yield [duck_db, spark]


def both(engines: list[SqlEngine], query: str) -> list[list[tuple[Any, ...]]]:
    return [sorted(engine.rows(query), key=repr) for engine in engines]


def test_current_pages(engines):
    for engine in engines:
        create_pages(engine, 2)
    duck_db, spark = both(engines, f"SELECT {COLUMNS} FROM pages")
    assert duck_db == spark
    assert len(duck_db) == 50


def test_comparisons(engines):
    for engine in engines:
        create_pages(engine, 1)
        engine.create(
            "pairs",
            """SELECT DISTINCT x.document AS a, y.document AS b FROM pages AS x JOIN pages AS y ON x.cluster = y.cluster
            WHERE x.document < y.document""",
        )
        create_comparisons(engine, "pairs", "compared")
    duck_db, spark = both(engines, "SELECT a, b, resemblance, containment, contained FROM compared")
    assert duck_db == spark
    assert duck_db


@pytest.mark.parametrize("method", METHODS)
def test_mirrors(engines, method):
    results = []
    for engine in engines:
        create_pages(engine, 2)
        counters: Counter[str] = Counter()
        results.append((compute_mirrors(engine, settings.load().analyses, method, counters), counters))
    assert results[0] == results[1]
    (mirror,) = results[0][0]
    assert (mirror.hosts, mirror.level) == (("a.example", "b.example"), "3")


@pytest.mark.parametrize("rule", ["regions", "paper", "extended"])
def test_collections_and_the_avoid_list(engines, rule):
    """Each of the three folders of a mirror is a collection of eight pages."""
    results = []
    for engine in engines:
        create_pages(engine, 1)
        result = compute_collections(engine, rule=rule, clusters_min=5, urls_max=3)
        entries = compute_avoid(engine, copied_share_min=0.8, sample_share=0.1)
        results.append((result, entries, check_avoid(engine, entries, copied_share_min=0.8)))
    assert results[0] == results[1]
    result, entries, checked = results[0]
    assert len(result.collections) == 6
    assert sum(not entry.keep for entry in entries) == len(checked) == 3


@pytest.mark.parametrize("method", list(replicas.METHODS))
def test_replicas(engines, method):
    results = []
    for engine in engines:
        create_pages(engine, 1)
        counters: Counter[str] = Counter()
        results.append((replicas.compute(engine, settings.load().analyses, method, counters), counters))
    assert results[0] == results[1]
    if method == "names":
        (replica,) = results[0][0]
        assert (replica.a, replica.b) == ("https://a.example/", "https://b.example/")


def test_changes(engines):
    duck_db, spark = (compute_host_changes(engine, {1: "one", 2: "two"}) for engine in engines)
    assert duck_db == spark
    assert [(change.host, change.changed) for change in duck_db] == [("c.example", 1)]


def test_a_table_can_replace_one_that_its_query_reads(engines):
    for engine in engines:
        engine.insert("numbers", pa.table({"n": pa.array([1, 2, 3], pa.int64())}))
        engine.create("numbers", "SELECT n + 1 AS n FROM numbers")
        assert sorted(engine.rows("SELECT n FROM numbers")) == [(2,), (3,), (4,)]
        engine.drop("numbers")


def test_a_folder_without_an_export_is_refused(session, tmp_path):
    with pytest.raises(InputError, match="no export"):
        Spark(tmp_path, session)
