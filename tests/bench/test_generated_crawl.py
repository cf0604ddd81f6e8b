"""The generated data sets are valid, and the analyses find the copies that they contain."""

from __future__ import annotations

from pathlib import Path

from bench.replicas import generated_crawl
from bench.replicas.scale import measure
from streams.analyses.current_pages import create_pages
from streams.analyses.replicas import compute
from streams.analyses.sql_engine import DuckDb
from streams.export.hashes import host_hash, page_hash, path_hash
from tests.samples import settings


def test_the_rows_are_those_of_an_export(tmp_path: Path) -> None:
    hosts, pages, links = generated_crawl.write(tmp_path, 3_000)
    with DuckDb(tmp_path, memory_mib=256, threads=1) as engine:
        create_pages(engine, 1)
        rows = engine.rows("SELECT url_key, page, path, host FROM pages")
        assert (len(rows), len({row[1] for row in rows})) == (pages, pages)
        assert {row[3] for row in rows} == {host for (host,) in engine.rows("SELECT host FROM hosts")}
        assert len({row[3] for row in rows}) == hosts
        for key, *hashes in rows[::50]:
            assert hashes == [function(key.encode()) for function in (page_hash, path_hash, host_hash)]
        assert links == pages * generated_crawl.LINKS_PER_PAGE
        counts = (
            "SELECT count(*) FROM links JOIN pages ON pages.page = links.target AND pages.host = links.target_host"
        )
        assert engine.rows(counts) == [(links,)]
        assert engine.rows("SELECT count(*) FROM pages WHERE cluster IS NULL") == [(0,)]


def test_the_copies_are_found(tmp_path: Path) -> None:
    hosts, _, _ = generated_crawl.write(tmp_path / "data", 10_000)
    with DuckDb(tmp_path / "data", memory_mib=256, threads=1) as engine:
        create_pages(engine, 1)
        replicas = compute(engine, settings().analyses)
    copied = {replica.a for replica in replicas} | {replica.b for replica in replicas}
    assert len(copied) >= 0.5 * generated_crawl.COPIED_SHARE * hosts
    sample = measure(str(tmp_path / "data"), "replicas")
    assert sample["results"] == len(replicas)
    assert sample["cpu_seconds"] > 0 < sample["memory_mib"]
