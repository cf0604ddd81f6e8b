"""Test on a real broker that pages and what is derived from them take little space in the topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import topic_bytes
from bench.cluster import broker
from bench.engine import write_pages
from streams.kafka.wire.packed_messages import Topic
from tests.broker.running import require_archives

PAGES = 400


def test_html_takes_less_than_twice_its_compressed_size(tmp_path: Path) -> None:
    require_archives()
    pages = write_pages(tmp_path / "pages.jsonl", PAGES, html=True, near_share=0.4)
    with broker(tmp_path) as running:
        if running.data is None:
            pytest.skip("the sizes of the topics are read from the disk of a broker that the test has started")
        sizes, topics = topic_bytes.measure(tmp_path, running, 2, [pages])
    assert sizes.pages == PAGES
    ratios = {topic: size / sizes.compressed for topic, size in topics.items()}
    assert 0.2 < ratios[Topic.PAGES] < 0.6
    assert 0.2 < ratios[Topic.CAPTURES] < 0.6
    assert 1.0 < sum(ratios.values()) < 1.8
