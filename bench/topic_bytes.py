"""Measure how many bytes workers and `publish` write to topics per page: `python -m bench.topic_bytes FILES`.

The bytes are those of the log files on the broker's disk, so compression by producers counts. They are compared with
the bytes that the pages would have if each was compressed with zstd (level 3) on its own. Without FILES, synthetic
HTML pages are measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec
import zstandard

from bench.cluster import Collection, RunningBroker, broker, new_collection
from bench.engine import temporary_folder, write_pages
from bench.run import Row
from streams.kafka.wire.packed_messages import Topic
from streams.page import Page
from streams.readers.dispatch import read
from streams.readers.read_limits import ReadLimits

RATIO_MAX = 1.5
ZSTD_LEVEL = 3
PAGES = 1_500


class PageSizes(msgspec.Struct):
    """The number of pages with content, and their sizes in bytes."""

    pages: int = 0
    content: int = 0
    compressed: int = 0  # each page on its own


def page_sizes(paths: Sequence[Path]) -> PageSizes:
    """Read crawl files, and add up the sizes of their pages."""
    compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
    sizes = PageSizes()
    for _, item in read([str(path) for path in paths], ReadLimits()):
        if isinstance(item, Page) and (item.body is not None or item.text is not None):
            content = item.body if item.body is not None else (item.text or "").encode("utf-8", "replace")
            sizes.pages += 1
            sizes.content += len(content)
            sizes.compressed += len(compressor.compress(content))
    return sizes


def bytes_by_topic(collection: Collection) -> dict[Topic, int]:
    """Return the sizes of a collection's topics on the disk of a broker that this benchmark has started."""
    data = collection.running.data
    assert data is not None
    return {
        topic: sum(file.stat().st_size for file in data.rglob(f"{collection.prefix}-{topic.value}-[0-9]*/*.log"))
        for topic in Topic
    }


def measure(
    folder: Path, running: RunningBroker, partitions: int, paths: Sequence[Path]
) -> tuple[PageSizes, dict[Topic, int]]:
    """Publish the pages of files, let one worker process them, and return the sizes of pages and topics."""
    with new_collection(folder, running, partitions) as collection:
        collection.publish(paths)
        collection.run_until_idle("a")
        return page_sizes(paths), bytes_by_topic(collection)


def row(name: str, sizes: PageSizes, topics: dict[Topic, int]) -> Row:
    """Return the row of the table of `bench.kafka`."""
    pages, total = sizes.pages, sum(topics.values())
    largest = sorted(topics, key=lambda topic: -topics[topic])[:4]
    note = (
        f"{total / pages:,.0f} / {sizes.compressed / pages:,.0f} bytes; pages of {sizes.content / pages:,.0f} bytes; "
        + ", ".join(f"{topic.value} {topics[topic] / pages:,.0f}" for topic in largest)
    )
    what = f"bytes on topics per page / compressed bytes of the page, {name}"
    return Row("topics", what, total / sizes.compressed, None, RATIO_MAX, note, at_most=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the bytes on topics per page.")
    parser.add_argument("files", type=Path, nargs="*", help="crawl files; default: synthetic HTML")
    parser.add_argument("--partitions", type=int, default=4)
    args = parser.parse_args()
    with temporary_folder() as folder, broker(folder) as running:
        if running.data is None:
            raise SystemExit("unset KAFKA_BOOTSTRAP: the sizes of the topics are read from the disk of the broker")
        files = args.files or [write_pages(folder / "pages.jsonl", PAGES, html=True, near_share=0.4)]
        sizes, topics = measure(folder, running, args.partitions, files)
    for topic, size in topics.items():
        print(f"{topic.value:16} {size / sizes.pages:8,.0f} bytes per page {size / sizes.compressed:6.2f}")
    result = row("all topics", sizes, topics)
    print(f"{result.what}: {result.ratio:.2f} ({result.note})")


if __name__ == "__main__":
    main()
