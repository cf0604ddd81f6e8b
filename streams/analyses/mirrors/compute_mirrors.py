"""Find the mirrors among the hosts of a data set: stage I, stage II and the groups."""

from __future__ import annotations

import math
from collections import Counter

from state.codecs import url_key as key_codec
from streams.analyses.analysis_session import Analysis
from streams.analyses.mirrors import bigrams, groups, host_pairs, levels, path_tests, samples, structure
from streams.analyses.mirrors.levels import Counts
from streams.analyses.mirrors.mirror import Evidence, Mirror, sort_key
from streams.analyses.sql_engine import SqlEngine
from streams.settings import AnalysisSettings

METHODS = ("samples", "paper")
_GROUPED_LEVELS = frozenset("123")
_TABLES = (
    "mirror_pages", "mirror_hosts", "mirror_pairs", "mirror_tests", "mirror_counts", "mirror_absent",
    "mirror_matching", "mirror_related", "mirror_links",
)  # fmt: skip


def analysis(method: str) -> Analysis[Mirror]:
    """Return the analysis of all pairs of hosts with one of `METHODS`."""
    return Analysis(
        "mirrors",
        method,
        Mirror,
        lambda session: compute(session.engine, session.settings, method, session.counters),
    )


def compute(
    engine: SqlEngine, settings: AnalysisSettings, method: str = "samples", counters: Counter[str] | None = None
) -> list[Mirror]:
    """Return all proposed pairs of hosts with their levels, sorted: the closest mirrors first.

    Expects the tables of a data set and `pages`. `method` chooses how stage I proposes pairs. `counters` receives how
    often each limit was reached.
    """
    chained_features = propose(engine, settings, method)
    path_tests.create_path_tests(engine, "mirror_pairs", settings.mirror_tests_max)
    path_tests.create_counts(engine, "mirror_pairs")
    _create_structure(engine)
    names, pages = _read_hosts(engine)
    counts = _read_counts(engine, names)
    engine.drop(*_TABLES)
    if counters is not None:
        counters["mirror_feature_hosts_max"] += chained_features
        counters["mirror_tests_max"] += sum(pair.tests < pair.paths for pair in counts.values())
    return _mirrors(counts, names, pages)


def propose(engine: SqlEngine, settings: AnalysisSettings, method: str = "samples") -> int:
    """Run stage I: create `mirror_pairs` (a, b), and the tables of `create_host_pages`.

    Return the number of features whose hosts were chained, because too many hosts share them.
    """
    samples.create_host_pages(engine)
    samples.create_samples(engine, "mirror_sample", settings.mirror_sample_pages)
    chained = 0
    if method == "paper":
        bigrams.create_pairs(engine, "mirror_sample", "mirror_pairs")
    else:
        hosts_max = settings.mirror_feature_hosts_max
        chained = host_pairs.create_pairs(engine, "mirror_sample", "mirror_pairs", hosts_max)
    engine.drop("mirror_sample")
    return chained


def _create_structure(engine: SqlEngine) -> None:
    """Look for absent folders of pairs whose texts agree, and compare the links of pairs whose text lengths agree."""
    texts_agree = f"""
        same_bytes + same_text + similar_text >= {levels.SIMILAR_SHARE_MIN} * (tests - failed_a - failed_b)
        AND tests >= {levels.TESTS_MIN}
    """
    engine.create("mirror_matching", f"SELECT a, b FROM mirror_counts WHERE {texts_agree}")
    structure.create_absent_folders(engine, "mirror_matching")
    lengths_agree = f"length_correlation >= {levels.LENGTH_CORRELATION_MIN}"
    engine.create("mirror_related", f"SELECT a, b FROM mirror_counts WHERE NOT ({texts_agree}) AND {lengths_agree}")
    structure.create_link_agreement(engine, "mirror_related")


def _read_counts(engine: SqlEngine, names: dict[int, str]) -> dict[tuple[int, int], Counts]:
    columns = ", ".join(f"c.{name}" for name in path_tests.COUNTS.split(", "))
    rows = engine.rows(
        f"""
        SELECT c.a, c.b, absent.host, {columns}, absent.folder, coalesce(absent.pages, 0), l.resemblance,
               coalesce(l.links, 0)
        FROM mirror_counts AS c
        LEFT JOIN mirror_absent AS absent ON absent.a = c.a AND absent.b = c.b
        LEFT JOIN mirror_links AS l ON l.a = c.a AND l.b = c.b
        """
    )
    result = {}
    for a, b, folder_host, *values in rows:
        counts = Counts(*values)
        result[a, b] = counts._replace(
            length_correlation=_finite(counts.length_correlation),
            absent_folder=None if counts.absent_folder is None else names[folder_host] + counts.absent_folder,
        )
    return result


def _finite(value: float | None) -> float | None:
    """Return a correlation, or None if it is undefined because all values are equal."""
    return None if value is None or not math.isfinite(value) else value


def _read_hosts(engine: SqlEngine) -> tuple[dict[int, str], dict[int, int]]:
    """Return the names of all paired hosts, as prefixes of URL keys, and their numbers of pages."""
    rows = engine.rows(
        """
        SELECT paired.host, max(hosts.name), coalesce(max(counted.pages), 0)
        FROM (SELECT a AS host FROM mirror_pairs UNION SELECT b AS host FROM mirror_pairs) AS paired
        JOIN hosts ON hosts.host = paired.host
        LEFT JOIN mirror_hosts AS counted ON counted.host = paired.host
        GROUP BY paired.host
        """
    )
    return {host: name for host, name, _ in rows}, {host: pages for host, _, pages in rows}


def _mirrors(counts: dict[tuple[int, int], Counts], names: dict[int, str], pages: dict[int, int]) -> list[Mirror]:
    level_of_pair = {
        pair: levels.level_of(pair_counts) for pair, pair_counts in counts.items() if _is_listed(pair_counts)
    }
    named_pairs = [(names[a], names[b]) for (a, b), level in level_of_pair.items() if level in _GROUPED_LEVELS]
    group_of = groups.groups_of(named_pairs, {names[host]: number for host, number in pages.items()})
    mirrors = [
        _mirror(counts[pair], level, names[pair[0]], names[pair[1]], group_of)
        for pair, level in level_of_pair.items()
    ]
    return sorted(mirrors, key=sort_key)


def _is_listed(counts: Counts) -> bool:
    """Return whether a pair is listed: it was tested, or has a similar page.

    Other pairs mean nothing, because any two hosts have paths such as `/about` in common.
    """
    return counts.tests >= levels.TESTS_MIN or counts.same + counts.similar_text > 0


def _mirror(counts: Counts, level: str, a: str, b: str, group_of: dict[str, str]) -> Mirror:
    hosts = sorted(map(_host_name, (a, b)))
    group = group_of[a] if level in _GROUPED_LEVELS else None
    return Mirror(
        hosts=(hosts[0], hosts[1]),
        level=level,
        tests=counts.tests,
        same=counts.same,
        similar=counts.similar_text,
        failed=counts.failed,
        unknown=counts.unknown,
        paths=counts.paths,
        error_bound=levels.error_bound(counts, level),
        alias=groups.alias_of(a, b),
        group=None if group is None else _host_name(group),
        evidence=[
            Evidence(kind=kind, value=value, url=None if key is None else _url(key))
            for kind, value, key in levels.evidence_of(counts, level)
        ],
    )


def _host_name(prefix: str) -> str:
    name, port = key_codec.decode_host(prefix.encode())
    return f"{name}:{port}" if port else name


def _url(key: str) -> str:
    return key_codec.url_of(key.encode(), https=True)
