"""A worker's metrics for Prometheus. All names start with `lostfound_`; units are base units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from streams.kafka.wire.packed_messages import Topic

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
COUNTERS = {
    "pages": "pages read",
    "pages_not_sketched": "pages recognised as unchanged before sketching",
    "captures": "captures written",
    "unchanged": "pages whose URL had the same document last time",
    "sightings": "documents at a URL that had another document, or none, last time",
    "documents": "documents seen for the first time",
    "pairs": "candidate pairs nominated by buckets",
    "pairs_verified": "candidate pairs whose sketches were compared",
    "edges": "pairs at or above the similarity threshold",
    "unions": "cluster roots that were joined to another cluster",
    "retractions": "messages that delete or overwrite rows, from forget and sweep cancel",
    "moves_truncated": "sweeps with more moves than kafka.moves_max",
    "moves_failed": "sweeps whose moves could not be computed",
    "bucket_postings_dropped": "postings not stored because their bucket was full",
    "candidates_dropped": "candidates not verified because a document had more than the limit",
}


class Metrics:
    """The counters and gauges of one worker."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"lostfound_{name}_total", help_text, registry=self.registry)
            for name, help_text in COUNTERS.items()
        }
        self._dead_letters = Counter(
            "lostfound_dead_letters_total", "dead letters", ["reason"], registry=self.registry
        )
        self._results = Counter("lostfound_results_total", "result messages", ["topic"], registry=self.registry)
        self._values = Counter("lostfound_values_total", "values processed", ["topic"], registry=self.registry)
        self._seconds = Histogram(
            "lostfound_stage_seconds",
            "seconds per batch in a stage",
            ["topic"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.partitions = Gauge("lostfound_partitions", "open partitions", ["role"], registry=self.registry)
        self.ready = Gauge("lostfound_ready", "1 when partitions are assigned and recovered", registry=self.registry)
        self.disk_free = Gauge(
            "lostfound_disk_free_bytes", "free space on the data folder's disk", registry=self.registry
        )
        self.waiting_messages = Gauge(
            "lostfound_waiting_messages", "messages not yet acknowledged", ["topic"], registry=self.registry
        )
        self.records_ahead = Gauge(
            "lostfound_changelog_ahead_records",
            "changelog records written by this worker after a record of another writer",
            registry=self.registry,
        )

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to counters, by their names in COUNTERS."""
        for name, number in counts.items():
            self._counters[name].inc(number)

    def count_dead_letters(self, reasons: Iterable[str]) -> None:
        """Count one dead letter per reason."""
        for reason in reasons:
            self._dead_letters.labels(reason).inc()

    def count_results(self, topics: Iterable[Topic]) -> None:
        """Count one result message per topic."""
        for topic in topics:
            self._results.labels(topic.value).inc()

    @contextmanager
    def time_batch(self, topic: Topic, values: int) -> Iterator[None]:
        """Time a batch of so many values in its stage."""
        self._values.labels(topic.value).inc(values)
        with self._seconds.labels(topic.value).time():
            yield

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return bytes(generate_latest(self.registry))
