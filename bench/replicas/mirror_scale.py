"""Measure the CPU time and the memory of `mirrors` on generated hosts.

    python -m bench.replicas.mirror_scale [--hosts 10000]

Each host has about 30 pages. A tenth of the hosts are copies of another host, 500 hosts are copies of one site, and all
hosts have eight paths in common. Documents are not compared, because copies have the same bytes.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from streams import settings
from streams.analyses.mirrors import compute
from streams.analyses.sql_engine import DuckDb
from streams.export.schema import MANIFEST_FILE

PATHS, COMMON_PATHS, COPIES = 42, 8, 500
CAPTURED_TENTHS = 7
_HASH = "CAST(hash({}) >> 1 AS BIGINT)"


def create_pages(engine: DuckDb, hosts: int) -> int:
    """Create the tables `pages` and `hosts`. Return the number of pages."""
    engine.create(
        "numbers",
        f"""
        SELECT h, p, CASE WHEN h < {COPIES} THEN 0 WHEN h % 10 = 0 THEN h - 1 ELSE h END AS site
        FROM (SELECT range AS h FROM range({hosts})) CROSS JOIN (SELECT range AS p FROM range({PATHS}))
        WHERE hash(h * 1000 + p) % 10 < {CAPTURED_TENTHS}
        """,
    )
    document = _HASH.format("site * 1000 + p")
    path = _HASH.format(f"CASE WHEN p < {COMMON_PATHS} THEN p ELSE site * 1000 + p END")
    engine.create(
        "pages",
        f"""
        SELECT {_HASH.format("h * 1000 + p")} AS page, {path} AS path, {_HASH.format("h * 7919")} AS host,
               'com,h' || h || ')/f' || (p // 10) || '/p' || p || '.html' AS url_key, true AS https, 200 AS status,
               {document} AS fingerprint, CAST(NULL AS BIGINT) AS link_list, NULL AS redirect, {document} AS document,
               {document} AS cluster, CAST(100 + hash(h * 1000 + p) % 1000 AS INT) AS tokens
        FROM numbers
        """,
    )
    name = "split_part(url_key, ')', 1) || ')'"
    engine.create("hosts", f"SELECT DISTINCT host, {name} AS name, 1 AS sweep, {PATHS} AS captures FROM pages")
    engine.drop("numbers")
    pages: int = engine.rows("SELECT count(*) FROM pages")[0][0]
    return pages


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the CPU time and the memory of `mirrors`.")
    parser.add_argument("--hosts", type=int, default=10_000)
    hosts: int = parser.parse_args().hosts
    limits = settings.load().analyses
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / MANIFEST_FILE).write_text("{}")
        with DuckDb(Path(folder), memory_mib=limits.memory_mib, threads=2) as engine:
            pages = create_pages(engine, hosts)
            begin = time.process_time()
            mirrors = compute(engine, limits)
            seconds = time.process_time() - begin
    levels = Counter(mirror.level for mirror in mirrors)
    largest_group = Counter(mirror.group for mirror in mirrors if mirror.group).most_common(1)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{hosts:,} hosts, {pages:,} pages: {seconds:.1f} s of CPU, {peak_mib:,} MiB")
    print(f"pairs by level: {dict(levels)}; pairs of the largest group: {largest_group}")


if __name__ == "__main__":
    main()
