"""Builders of small crawl files: records as bytes, compressed as crawlers do it."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from streams.page import Page, Rejected
from streams.readers.dispatch import read
from streams.readers.position import Position
from streams.readers.read_limits import ReadLimits

HTML = b"<html><title>A</title><body>one two three</body></html>"


def reason_of(item: Page | Rejected) -> str:
    """Return why an item or the content of a page is refused, or "page"."""
    if isinstance(item, Rejected):
        return item.reason
    return item.content_error[0] if item.content_error else "page"


class Build:
    """Functions that build records and files."""

    html = HTML

    @staticmethod
    def http(body: bytes = HTML, status: str = "200 OK", **headers: str) -> bytes:
        fields = {"Content-Type": "text/html; charset=UTF-8"} | {k.replace("_", "-"): v for k, v in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body

    @staticmethod
    def warc(
        block: bytes | None = None,
        kind: str = "response",
        url: str | None = "http://a.org/x",
        version: str = "1.0",
        newline: str = "\r\n",
        **headers: str | None,
    ) -> bytes:
        block = Build.http() if block is None else block
        fields: dict[str, str | None] = {
            "WARC-Type": kind,
            "WARC-Target-URI": url,
            "WARC-Date": "2020-01-02T03:04:05Z",
            "Content-Type": "application/http; msgtype=response",
            "Content-Length": str(len(block)),
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [
            f"WARC/{version}",
            *(f"{name}: {value}" for name, value in fields.items() if value is not None),
            "",
            "",
        ]
        return newline.join(lines).encode() + block + b"\r\n\r\n"

    @staticmethod
    def arc(block: bytes | None = None, url: str = "http://a.org/x", size: int | None = None) -> bytes:
        block = Build.http() if block is None else block
        size = len(block) if size is None else size
        return f"{url} 192.0.2.7 20080509190241 text/html {size}\n".encode() + block + b"\n"

    @staticmethod
    def wacz(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return file.getvalue()

    @staticmethod
    def gz(*records: bytes) -> bytes:
        return b"".join(gzip.compress(record, mtime=0) for record in records)

    @staticmethod
    def zst(*records: bytes) -> bytes:
        return b"".join(map(zstandard.ZstdCompressor(write_checksum=True).compress, records))


@pytest.fixture(scope="session")
def build() -> type[Build]:
    return Build


Items = list[tuple[Position, Page | Rejected]]


@pytest.fixture
def items(tmp_path: Path) -> Callable[..., Items]:
    """Return a function that reads a file of some bytes, from the position `start`."""

    def read_items(
        data: bytes, name: str = "a.bin", limits: ReadLimits | None = None, start: Position | None = None
    ) -> Items:
        path = tmp_path / name
        path.write_bytes(data)
        return list(read([path], limits, start))

    return read_items


@pytest.fixture
def pages(items: Callable[..., Items]) -> Callable[..., list[Page]]:
    """Return a function that reads a file of which every item must be a page."""

    def read_pages(data: bytes, name: str = "a.bin", limits: ReadLimits | None = None) -> list[Page]:
        results = [item for _, item in items(data, name, limits)]
        good = [item for item in results if isinstance(item, Page)]
        assert good == results
        return good

    return read_pages


@pytest.fixture
def reasons(items: Callable[..., Items]) -> Callable[..., list[str]]:
    """Return a function that reads a file into the reason of each item, or "page"."""

    def read_reasons(data: bytes, name: str = "a.bin", limits: ReadLimits | None = None) -> list[str]:
        return [reason_of(item) for _, item in items(data, name, limits)]

    return read_reasons


def assert_rejects_long_item_in_bounded_memory(path: Path) -> None:
    """Assert that the first of two items is too long, and that it is never held in memory as a whole."""
    tracemalloc.start()
    results = [item for _, item in read([path], ReadLimits(line_bytes_max=1 << 20))]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [getattr(item, "reason", "page") for item in results] == ["too_big", "page"]
    assert peak < 8 << 20
