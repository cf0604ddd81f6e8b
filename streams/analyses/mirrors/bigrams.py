"""Stage I as published: propose pairs of hosts whose paths share rare positional bigrams of words.

The path `/conferences/d299/program.html` has the words `conferences`, `d*`, `program`: digits become `*`, and words
such as `html` are dropped. Its features are the pairs of neighbouring words with the position of the first.

A feature f has the weight FW(f) = S(f) / N(f), where N(f) is the number of hosts with f, and S(f) the number of path
segments from the root to the end of f: deep paths are rarely equal by chance. The score of a pair is the sum of the
weights of its shared features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import mmh3
import pyarrow as pa

from streams.analyses.sql_engine import SqlEngine

FEATURE_HOSTS_MAX = 20  # features that more hosts share are dropped
SCORE_MIN = 1.0
_STOP_WORDS = frozenset({"htm", "html", "txt", "main", "index", "home", "bin", "cgi"})
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"(?:[^\W_]|\*)+")
_SCHEMA = pa.schema([("host", pa.int64()), ("feature", pa.int64()), ("segments", pa.int32())])


def create_pairs(engine: SqlEngine, sample: str, table: str) -> None:
    """Create `table` with the proposed pairs (a, b), a < b, from the table `sample` (host, url_key)."""
    engine.create_mapped("bigram_rows", f"SELECT host, url_key FROM {sample}", _feature_rows, _SCHEMA)
    engine.create(
        "bigrams",
        "SELECT host, feature, max(segments) AS segments FROM bigram_rows GROUP BY host, feature",
    )
    engine.create(
        "bigram_weights",
        f"""
        SELECT feature, CAST(max(segments) AS DOUBLE) / count(*) AS weight FROM bigrams
        GROUP BY feature HAVING count(*) BETWEEN 2 AND {FEATURE_HOSTS_MAX}
        """,
    )
    engine.create(
        table,
        f"""
        SELECT x.host AS a, y.host AS b
        FROM bigram_weights AS w
        JOIN bigrams AS x ON x.feature = w.feature
        JOIN bigrams AS y ON y.feature = w.feature AND x.host < y.host
        GROUP BY x.host, y.host HAVING sum(w.weight) >= {SCORE_MIN}
        """,
    )
    engine.drop("bigram_rows", "bigrams", "bigram_weights")


def features(url_key: str) -> Iterator[tuple[str, int]]:
    """Yield the features of a URL key's path, each with its number of segments."""
    path = url_key.partition(")")[2].partition("?")[0].lower()
    words = [
        (word, segments)
        for segments, segment in enumerate(path.removeprefix("/").split("/"), start=1)
        for word in _words(segment)
    ]
    for position, ((first, _), (second, segments)) in enumerate(pairwise(words)):
        yield f"{first} {second} {position}", segments


def _words(segment: str) -> list[str]:
    tokens = _WORD.findall(_DIGITS.sub("*", segment))
    return [token for token in tokens if token not in _STOP_WORDS]


def _feature_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    hosts_and_keys = zip(batch.column("host").to_pylist(), batch.column("url_key").to_pylist(), strict=True)
    rows = {
        (host, mmh3.hash64(feature)[0], segments)
        for host, url_key in hosts_and_keys
        for feature, segments in features(url_key)
    }
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)
