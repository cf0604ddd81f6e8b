"""Metrics for Prometheus, all under `lostfound_`, in base units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from streams.kafka.wire.packed_messages import Topic

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
COUNTED = {
    "pages": "pages taken",
    "captures": "captures written",
    "unchanged": "pages whose URL held the same document last time",
    "arrivals": "documents at a URL that did not hold them",
    "documents": "documents seen for the first time",
    "pairs": "candidate pairs nominated by buckets",
    "pairs_verified": "pairs whose sketches were compared",
    "edges": "pairs at or above the threshold",
    "unions": "roots that got a parent",
    "retractions": "changes that overwrite, from forgetting",
    "moves_max": "sweeps that had more moves to tell than the limit",
    "moves_failed": "sweeps whose moves could not be told",
    "bucket_postings_max": "postings that a full bucket did not keep",
    "candidates_max": "candidates of a document beyond the limit, at one owner of buckets",
}


class Metrics:
    """What one worker counts."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # when each counter was made: nobody asks, and it doubles the page
        self.registry = CollectorRegistry()
        self._counts = {
            name: Counter(f"lostfound_{name}_total", says, registry=self.registry) for name, says in COUNTED.items()
        }
        self._refused = Counter(
            "lostfound_dead_letters_total", "what was refused", ["reason"], registry=self.registry
        )
        self._reported = Counter("lostfound_results_total", "messages for others", ["topic"], registry=self.registry)
        self._values = Counter("lostfound_values_total", "values taken", ["topic"], registry=self.registry)
        self._seconds = Histogram(
            "lostfound_stage_seconds", "time in a stage, a batch", ["topic"], buckets=_SECONDS, registry=self.registry
        )
        self.partitions = Gauge(
            "lostfound_partitions", "partitions of the state held", ["role"], registry=self.registry
        )
        self.ready = Gauge("lostfound_ready", "1 when assigned and recovered", registry=self.registry)
        self.free = Gauge("lostfound_disk_free_bytes", "room under the data folder", registry=self.registry)
        self.waiting = Gauge(
            "lostfound_waiting_messages", "messages not acknowledged", ["topic"], registry=self.registry
        )
        self.ahead = Gauge(
            "lostfound_changelog_ahead_records", "own records behind another writer's", registry=self.registry
        )

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to the totals."""
        for name, more in counts.items():
            self._counts[name].inc(more)

    def refused(self, reasons: Iterable[str]) -> None:
        """Count dead letters."""
        for reason in reasons:
            self._refused.labels(reason).inc()

    def reported(self, found: Iterable[Topic]) -> None:
        """Count results."""
        for topic in found:
            self._reported.labels(topic.value).inc()

    @contextmanager
    def batch(self, topic: Topic, values: int) -> Iterator[None]:
        """Time a batch in its stage."""
        self._values.labels(topic.value).inc(values)
        with self._seconds.labels(topic.value).time():
            yield

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return bytes(generate_latest(self.registry))
