"""The same texts, shingles, threshold, bands and rows through libraries in common use.

A peer is handed texts, as our engine is. Those that want shingles get them cut in plain Python, as their manuals do;
that is in the figures, and stands beside them by itself (`shingling_seconds`), so that anyone can take it off. Then each
document is sketched, its near-duplicates are asked for, and it is added to the index, one after another as a stream
must. No peer verifies, keeps clusters, or (but for Redis) outlives its process.
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

CHUNK = 500  # documents whose shingles are held at a time: as strings they take some 30 kB a document
Shingles = list[str]
_WORD = re.compile(r"\w+")


def shingles_of(text: str, width: int) -> Shingles:
    """The distinct shingles of a text. On our synthetic texts they are those of our own tokeniser."""
    words = _WORD.findall(text.casefold())
    count = max(len(words) - width + 1, 1)
    return list(dict.fromkeys([" ".join(words[i : i + width]) for i in range(count)]))


class _Stream:
    """Texts in chunks to a peer, with what that takes."""

    def __init__(self, documents: int, shape: dict[str, Any], scheme: dict[str, Any]) -> None:
        self.documents, self.shape = documents, Shape(**shape)
        self.width = msgspec.convert(scheme, Scheme).shingle_words

    def through(self, take: Callable[[int, list[Shingles]], int]) -> dict[str, Any]:
        """Hand shingles to `take`, which returns how many candidates it found."""
        take(0, [shingles_of(text, self.width) for text in self._texts(self.documents, self.documents + 50)])
        return self._measured(take, lambda text: shingles_of(text, self.width))

    def through_texts(self, take: Callable[[int, list[str]], int]) -> dict[str, Any]:
        """The same for a peer that takes texts."""
        take(0, self._texts(self.documents, self.documents + 50))
        return self._measured(take, lambda text: text)

    def _measured(self, take: Callable[[int, list[Any]], int], prepare: Callable[[str], Any]) -> dict[str, Any]:
        watch, shingling, pairs = Stopwatch(), Stopwatch(), 0
        rss = memory_mib()
        for start in range(0, self.documents, CHUNK):
            held = self._texts(start, min(start + CHUNK, self.documents))
            with watch.running():
                with shingling.running():
                    ready = [prepare(text) for text in held]
                pairs += take(start + CHUNK, ready)
        found = watch.figures(self.documents)
        return {
            **found,
            "shingling_seconds": shingling.seconds,
            "pairs": pairs,
            "rss_grown_mib": found["rss_mib"] - rss,
        }

    def _texts(self, start: int, stop: int) -> list[str]:
        return texts(self.shape, start, stop)


def rensa(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """rensa's RMinHash and RMinHashLSH, a document at a time."""
    from rensa import RMinHash, RMinHashLSH

    bands, bins = _bands(scheme)
    index = RMinHashLSH(threshold=threshold, num_perm=bins, num_bands=bands)

    def take(start: int, ready: list[Shingles]) -> int:
        pairs = 0
        for i, shingles in enumerate(ready):
            sketch = RMinHash(num_perm=bins, seed=42)
            sketch.update(shingles)
            pairs += len(index.query(sketch))
            index.insert(start + i, sketch)
        return pairs

    return _Stream(documents, shape, scheme).through(take)


def rensa_matrix(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """rensa's fastest way of the same sketch: a matrix a chunk, which says of each document only yes or no."""
    from rensa import RMinHash, RMinHashLSH

    bands, bins = _bands(scheme)
    index = RMinHashLSH(threshold=threshold, num_perm=bins, num_bands=bands)

    def take(start: int, ready: list[Shingles]) -> int:
        matrix = RMinHash.digest_matrix_from_token_sets(ready, bins, 42)
        return sum(index.insert_matrix_and_query_duplicate_flags(matrix, start))

    return _Stream(documents, shape, scheme).through(take)


def datasketch(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """datasketch's MinHash and MinHashLSH in memory."""
    return _Stream(documents, shape, scheme).through(_datasketch(scheme, threshold, None))


def datasketch_redis(
    documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float
) -> dict[str, Any]:
    """datasketch's MinHashLSH on a Redis of its own; the server's CPU seconds are not in the figures."""
    with redis_server() as port:
        storage = {"type": "redis", "basename": b"bench", "redis": {"host": "127.0.0.1", "port": port}}
        return _Stream(documents, shape, scheme).through(_datasketch(scheme, threshold, storage))


def _datasketch(
    scheme: dict[str, Any], threshold: float, storage: dict[str, Any] | None
) -> Callable[[int, list[Shingles]], int]:
    from datasketch import MinHash, MinHashLSH

    bands, bins = _bands(scheme)
    index = MinHashLSH(threshold=threshold, num_perm=bins, params=(bands, bins // bands), storage_config=storage)

    def take(start: int, ready: list[Shingles]) -> int:
        pairs = 0
        for i, shingles in enumerate(ready):
            sketch = MinHash(num_perm=bins)
            sketch.update_batch([shingle.encode() for shingle in shingles])
            pairs += len(index.query(sketch))
            index.insert(str(start + i), sketch)
        return pairs

    return take


def gaoya(documents: int, shape: dict[str, Any], scheme: dict[str, Any], threshold: float) -> dict[str, Any]:
    """gaoya's index, which cuts shingles itself, and sketches once to ask and once to add: it has no other way."""
    from gaoya.minhash import MinHashStringIndex

    bands, bins = _bands(scheme)
    width = msgspec.convert(scheme, Scheme).shingle_words
    index = MinHashStringIndex(
        32, threshold, bands, bins // bands, None, analyzer="word", lowercase=True, ngram_range=(width, width)
    )

    def take(start: int, documents: list[str]) -> int:
        pairs = 0
        for i, text in enumerate(documents):
            pairs += len(index.query(text))
            index.insert_document(start + i, text)
        return pairs

    return _Stream(documents, shape, scheme).through_texts(take)


def _bands(scheme: dict[str, Any]) -> tuple[int, int]:
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
    """Why there is no Redis to measure, after trying to install Debian's where that is allowed; None when there is."""
    if shutil.which("redis-server"):
        return None
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing Debian's redis-server ...", file=sys.stderr)
        # The package would start a server of its own, which is not wanted.
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for step in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", "redis-server"]):
            subprocess.run(["apt-get", *step], env=quiet, stdout=sys.stderr, check=False)
        if shutil.which("redis-server"):
            return None
    return "redis-server is not installed: apt-get install redis-server"


@contextlib.contextmanager
def redis_server() -> Iterator[int]:
    """A Redis of our own on a loopback port, its files in a temporary folder, both gone afterwards; yields the port."""
    import redis

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    folder = tempfile.mkdtemp(prefix="lostfound-redis-")
    # Defaults of Debian's package but for the place: its snapshots stay on, no append-only file.
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
