"""Defines a worker's Prometheus metrics. All names start with `lostfound_`, and all units are base units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from streams.kafka.wire.packed_messages import Topic

BOUNDS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
COUNTERS = {
    "pages": "pages read",
    "pages_not_sketched": "pages recognised as unchanged before sketching",
    "not_pages": "responses that are not pages, such as images, fonts and scripts",
    "captures": "captures written",
    "unchanged": "pages whose URL served the same document last time",
    "html_stripped": "pages whose tags were stripped because parsing them would be too expensive",
    "links_dropped": "links dropped because a page had too many or a URL was too long",
    "anchors_cut": "anchor texts that were cut because they were too long",
    "sightings": "pages whose URL served a different document or no document last time",
    "documents": "documents seen for the first time",
    "pairs": "candidate pairs nominated by buckets",
    "pairs_verified": "candidate pairs whose sketches were compared",
    "edges": "pairs at or above the similarity threshold",
    "unions": "cluster roots that became members of another cluster",
    "decisions": "decisions of editors received, sent by moved, gone and decisions --remove",
    "retractions": "retractions applied, sent by forget and sweep cancel",
    "late_messages": "messages dropped because their sender had lost its partition",
    "moves_truncated": "sweeps with more moves than kafka.moves_max",
    "moves_failed": "sweeps whose moves could not be computed",
    "analyses_failed": "sweeps whose analyses could not be computed",
    "bucket_postings_dropped": "postings not stored because their bucket was full",
    "candidates_dropped": "candidates not verified because their document had too many candidates",
}


class Metrics:
    """The counters and gauges of one worker."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters = {name: self._counter(name, help_text) for name, help_text in COUNTERS.items()}
        self.dead_letters = self._counter("dead_letters", "dead letters", "reason")
        self.expired_messages = self._counter("expired_messages", "messages deleted before they were read", "topic")
        self.results = self._counter("results", "result messages", "topic")
        self._processed = self._counter("values", "unpacked messages or pages processed", "topic")
        self._batch_seconds = Histogram(
            "lostfound_stage_seconds",
            "seconds per batch",
            ["topic"],
            buckets=BOUNDS_SECONDS,
            registry=self.registry,
        )
        self.snapshots = self._counter("snapshots", "snapshots of partitions taken")
        self.snapshots_failed = self._counter("snapshots_failed", "snapshots that could not be taken")
        self.snapshots_restored = self._counter("snapshots_restored", "partitions restored from snapshots")
        self.snapshots_unusable = self._counter("snapshots_unusable", "damaged or unsuitable snapshots not used")
        self.partitions = self._gauge("partitions", "open partitions", "role")
        self.ready = self._gauge("ready", "1 if partitions are assigned and recovered and the disk has room")
        self.disk_free = self._gauge("disk_free_bytes", "free space on the data folder's disk")
        self.waiting_messages = self._gauge("waiting_messages", "messages not yet acknowledged", "topic")

        self.connections = self._gauge("connections", "open connections of the HTTP server")
        self.connections_closed = self._counter(
            "connections_closed", "connections closed by a setting of [server]", "limit"
        )
        self.requests = self._gauge("requests", "requests in progress", "kind")
        self.requests_rejected = self._counter("requests_rejected", "requests answered with 429", "kind")
        self.answers_partial = self._counter("answers_partial", "answers that reached server.answer_bytes_max")
        self.open_files = self._gauge("open_files", "open files and sockets of the process")
        self.open_files_max = self._gauge("open_files_max", "most files and sockets that the process may open")

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"lostfound_{name}_total", help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(f"lostfound_{name}", help_text, labels, registry=self.registry)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Increase counters. The keys of `counts` are names in COUNTERS."""
        for name, number in counts.items():
            self._counters[name].inc(number)

    @contextmanager
    def time_batch(self, topic: Topic, value_count: int) -> Iterator[None]:
        """Add the number of values in a batch to the counter, and time the processing of the batch."""
        self._processed.labels(topic.value).inc(value_count)
        with self._batch_seconds.labels(topic.value).time():
            yield

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return bytes(generate_latest(self.registry))
