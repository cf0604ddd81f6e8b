"""Test the metrics of a worker as Prometheus reads them."""

from __future__ import annotations

import re

import pytest

from streams.kafka.wire.packed_messages import Topic
from streams.kafka.worker.metrics import COUNTERS, Metrics


def test_counters_are_named_after_what_they_count() -> None:
    metrics = Metrics()
    metrics.add_counts(dict.fromkeys(COUNTERS, 3))
    for name in COUNTERS:
        assert metrics.registry.get_sample_value(f"lostfound_{name}_total") == 3, name


def test_a_counter_without_a_definition_is_an_error() -> None:
    with pytest.raises(KeyError):
        Metrics().add_counts({"no such counter": 1})


def test_a_timed_batch_counts_its_values() -> None:
    metrics = Metrics()
    with metrics.time_batch(Topic.CAPTURES, 5):
        pass
    samples = metrics.registry.get_sample_value
    assert samples("lostfound_values_total", {"topic": "captures"}) == 5
    assert samples("lostfound_stage_seconds_count", {"topic": "captures"}) == 1


def test_all_metrics_have_the_prefix_and_a_help_text() -> None:
    text = Metrics().render().decode()
    names = re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)
    assert len(names) > len(COUNTERS)
    assert all(name.startswith("lostfound_") for name in names)
    assert re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE) == names
