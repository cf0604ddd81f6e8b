"""Measure common libraries on the same texts, with the same shingles, threshold, bands and rows.

Each peer starts from texts, as our engine does. Peers that need shingles get them from plain Python code, as in their
manuals. The figures include this time, and `shingling_seconds` shows it separately. Documents are processed one after
another, as in a stream: each is sketched, the index is queried for near-duplicates, and the document is inserted.
No peer verifies pairs or stores clusters, and only the index on Redis outlives its process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bench.generator import Shape, texts
from bench.measure import Stopwatch, memory_mib
from state.scheme import Scheme

CHUNK = 500  # documents per batch; their shingles take about 30 kB per document as strings
Shingles = list[str]
_WORD = re.compile(r"\w+")


def shingles_of(text: str, width: int) -> Shingles:
    """Return the distinct shingles of a text. For our synthetic texts, our tokeniser gives the same shingles."""
    words = _WORD.findall(text.casefold())
    count = max(len(words) - width + 1, 1)
    return list(dict.fromkeys([" ".join(words[i : i + width]) for i in range(count)]))


class _Stream:
    """Passes texts to a peer in chunks, and measures the peer."""

    def __init__(self, documents: int, shape: dict[str, Any], scheme: dict[str, Any]) -> None:
        self.documents, self.shape = documents, Shape(**shape)
        self.width = msgspec.convert(scheme, Scheme).shingle_words

    def run(self, insert: Callable[[int, list[Shingles]], int]) -> dict[str, Any]:
        """Pass shingles to `insert`, which returns the number of candidates, and return the figures."""
        insert(0, [shingles_of(text, self.width) for text in self._texts(self.documents, self.documents + 50)])
        return self._measure(insert, lambda text: shingles_of(text, self.width))

    def run_on_texts(self, insert: Callable[[int, list[str]], int]) -> dict[str, Any]:
        """Do the same as `run` for a peer that shingles texts itself."""
        insert(0, self._texts(self.documents, self.documents + 50))
        return self._measure(insert, lambda text: text)

    def _measure(self, insert: Callable[[int, list[Any]], int], prepare: Callable[[str], Any]) -> dict[str, Any]:
        total, shingling, pairs = Stopwatch(), Stopwatch(), 0
        rss_before = memory_mib()
        for start in range(0, self.documents, CHUNK):
            batch = self._texts(start, min(start + CHUNK, self.documents))
            with total.running():
                with shingling.running():
                    prepared = [prepare(text) for text in batch]
                pairs += insert(start + CHUNK, prepared)
        figures = total.figures(self.documents)
        return {
            **figures,
            "shingling_seconds": shingling.seconds,
            "pairs": pairs,
            "rss_grown_mib": figures["rss_mib"] - rss_before,
        }

    def _texts(self, start: int, stop: int) -> list[str]:
        return texts(self.shape, start, stop)


def rensa(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """Run rensa's RMinHash and RMinHashLSH, one document at a time."""
    from rensa import RMinHash, RMinHashLSH

    bands, bins = _bands_and_bins(scheme)
    index = RMinHashLSH(threshold=threshold, num_perm=bins, num_bands=bands)

    def insert(start: int, prepared: list[Shingles]) -> int:
        pairs = 0
        for i, shingles in enumerate(prepared):
            sketch = RMinHash(num_perm=bins, seed=42)
            sketch.update(shingles)
            pairs += len(index.query(sketch))
            index.insert(start + i, sketch)
        return pairs

    return _Stream(documents, shape, scheme).run(insert)


def rensa_matrix(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """Run rensa's fastest variant: one matrix per chunk, which answers only yes or no per document."""
    from rensa import RMinHash, RMinHashLSH

    bands, bins = _bands_and_bins(scheme)
    index = RMinHashLSH(threshold=threshold, num_perm=bins, num_bands=bands)

    def insert(start: int, prepared: list[Shingles]) -> int:
        matrix = RMinHash.digest_matrix_from_token_sets(prepared, bins, 42)
        return sum(index.insert_matrix_and_query_duplicate_flags(matrix, start))

    return _Stream(documents, shape, scheme).run(insert)


def datasketch(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """Run datasketch's MinHash and MinHashLSH in memory."""
    return _Stream(documents, shape, scheme).run(_datasketch(scheme, threshold, None))


def datasketch_redis(
    documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float
) -> dict[str, Any]:
    """Run datasketch's MinHashLSH on a Redis server; the server's CPU seconds are not counted."""
    with redis_server() as port:
        storage = {"type": "redis", "basename": b"bench", "redis": {"host": "127.0.0.1", "port": port}}
        return _Stream(documents, shape, scheme).run(_datasketch(scheme, threshold, storage))


def _datasketch(
    scheme: dict[str, Any], threshold: float, storage: dict[str, Any] | None
) -> Callable[[int, list[Shingles]], int]:
    from datasketch import MinHash, MinHashLSH

    bands, bins = _bands_and_bins(scheme)
    index = MinHashLSH(threshold=threshold, num_perm=bins, params=(bands, bins // bands), storage_config=storage)

    def insert(start: int, prepared: list[Shingles]) -> int:
        pairs = 0
        for i, shingles in enumerate(prepared):
            sketch = MinHash(num_perm=bins)
            sketch.update_batch([shingle.encode() for shingle in shingles])
            pairs += len(index.query(sketch))
            index.insert(str(start + i), sketch)
        return pairs

    return insert


def gaoya(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """Run gaoya's index, which shingles texts itself and must sketch each text twice: for the query and the insert."""
    from gaoya.minhash import MinHashStringIndex

    bands, bins = _bands_and_bins(scheme)
    width = msgspec.convert(scheme, Scheme).shingle_words
    index = MinHashStringIndex(
        32, threshold, bands, bins // bands, None, analyzer="word", lowercase=True, ngram_range=(width, width)
    )

    def insert(start: int, documents: list[str]) -> int:
        pairs = 0
        for i, text in enumerate(documents):
            pairs += len(index.query(text))
            index.insert_document(start + i, text)
        return pairs

    return _Stream(documents, shape, scheme).run_on_texts(insert)


def _bands_and_bins(scheme: dict[str, Any]) -> tuple[int, int]:
    kind = msgspec.convert(scheme, Scheme)
    return kind.bands, kind.bins


PEERS: dict[str, str] = {
    "rensa": "bench.peers:rensa",
    "rensa, matrix": "bench.peers:rensa_matrix",
    "gaoya": "bench.peers:gaoya",
    "datasketch": "bench.peers:datasketch",
    "datasketch on Redis": "bench.peers:datasketch_redis",
}


def redis_missing() -> str | None:
    """Return why Redis cannot be measured, or None. As root, install Debian's package if Redis is missing."""
    if shutil.which("redis-server"):
        return None
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing Debian's redis-server ...", file=sys.stderr)
        # The run level keeps the package from starting a server.
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for step in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", "redis-server"]):
            subprocess.run(["apt-get", *step], env=quiet, stdout=sys.stderr, check=False)
        if shutil.which("redis-server"):
            return None
    return "redis-server is not installed: apt-get install redis-server"


@contextlib.contextmanager
def redis_server() -> Iterator[int]:
    """Start a Redis server on a loopback port, with its files in a temporary folder, and yield the port."""
    import redis

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    folder = tempfile.mkdtemp(prefix="lostfound-redis-")
    # These are the defaults of Debian's package except for the folder: snapshots, but no append-only file.
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--daemonize", "no"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = redis.Redis(port=port)
        for _ in range(100):
            with contextlib.suppress(redis.exceptions.ConnectionError):
                client.ping()
                break
            time.sleep(0.05)
        else:
            raise RuntimeError("redis-server did not start")
        yield port
    finally:
        server.terminate()
        server.wait(10)
        shutil.rmtree(folder, ignore_errors=True)
