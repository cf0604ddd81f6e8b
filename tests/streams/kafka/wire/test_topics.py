"""Test the checks of a collection's topics."""

from __future__ import annotations

import pytest

from streams.errors import InputError
from streams.kafka.wire import topics
from streams.settings import load


def test_a_topic_with_too_many_partitions_is_refused_by_name() -> None:
    kafka = load(overrides={"kafka": {"prefix": "p"}}).kafka
    topics.check_single_partition(kafka, {})
    topics.check_single_partition(kafka, {"p-sweeps": 1, "p-dead-letters": 1, "p-pages": 4})
    for full in ("p-sweeps", "p-dead-letters"):
        with pytest.raises(InputError, match=f"{full} has 4 partitions and must have 1") as refused:
            topics.check_single_partition(kafka, {"p-pages": 4, full: 4})
        assert "a different --prefix" in refused.value.hint
