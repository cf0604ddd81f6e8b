"""Test that hostile pages need bounded time and memory, have a reason, and do not affect other pages."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from state import meta
from state.check import check
from state.families import Family
from state.store import Store
from state.view import View
from streams.engine.ingest import ingest
from streams.errors import NoPages
from streams.urls import url_key
from tests.samples import NOW, html, page, redirect, settings, take

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
ADDRESS_SPACE = 5 << 30  # bytes; most of it is reserved by libraries and never touched
RESIDENT = 900 * MIB
SECONDS = 150


class MeasuredIngest(NamedTuple):
    """The result of an ingest in a process with limited memory."""

    summary: dict[str, Any]
    resident: int  # peak, in bytes
    seconds: float


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


MEASURED = """
import sys
from streams.cli import main
code = 0
try:
    main()
except SystemExit as ended:
    code = ended.code
# Not ru_maxrss: a child process inherits its value from its parent.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak.split()[1], file=sys.stderr)
sys.exit(code)
"""


def run(folder: Path, *paths: Path) -> MeasuredIngest:
    config = folder / "settings.toml"
    config.write_text("[ingest]\nworkers = 1\n")
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-c", MEASURED, "ingest", *map(str, paths), "--sweep", "one", "--json"],
        cwd=ROOT,
        env=os.environ | {"LOSTFOUND_DATA_DIR": str(folder / "state"), "LOSTFOUND_CONFIG": str(config)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        preexec_fn=limited,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    resident = int(process.stderr.split()[-1]) * 1024
    return MeasuredIngest(json.loads(process.stdout), resident, time.monotonic() - started)


def letters(folder: Path) -> Counter[str]:
    path = folder / "state" / "dead-letters.jsonl"
    return (
        Counter(json.loads(line)["reason"] for line in path.read_text().splitlines()) if path.exists() else Counter()
    )


def good(number: int) -> dict[str, Any]:
    return page(
        f"https://good.org/{number}",
        f"page {number} is good and is ingested in spite of bad pages before it",
        NOW + number,
    )


def assert_good_pages(folder: Path, count: int) -> None:
    with Store(folder / "state") as store:
        assert list(check(store, postings_max=settings().limits.bucket_postings_max)) == []
        view = View(store)
        for number in range(count):
            assert [c.document is not None for c in view.captures(url_key(f"https://good.org/{number}"))] == [True]


def line(**fields: Any) -> bytes:
    return json.dumps({"url": "https://bad.org/x", "fetch_time": NOW, **fields}).encode()


def bad_lines() -> Iterator[tuple[bytes, set[str]]]:
    """Yield hostile lines with the allowed reasons; no reason or an empty reason means that the page is accepted."""
    rng = random.Random(9)
    yield line(text="spam " * 10_000), set()  # 10,000 equal shingles
    yield line(text="spam"), set()
    yield line(text=" ".join(f"w{rng.getrandbits(40)}" for _ in range(400_000))), set()  # cut at tokens_max
    yield line(text="x" * 3_000_000), set()  # one word
    yield line(text="\u0e01" * 1_000_000), set()  # a script without spaces
    yield line(text="\u0301" * 500_000), {"no_text", ""}  # nothing but accents
    yield line(html="<div>" * 1_000_000 + "deep"), {"parse_failed", "no_text", "too_big", ""}
    yield line(html="<b><i>" * 300_000 + "unclosed"), {"parse_failed", "no_text", ""}
    yield line(html="<table>" * 200_000), {"parse_failed", "no_text"}
    yield line(html="<!--" * 500_000), {"parse_failed", "no_text"}
    yield line(html="&#x110000;&#xD800;&#0;" * 50_000), {"no_text", "parse_failed", ""}
    yield line(html="\0" * 1_000_000), {"no_text", "not_text", "parse_failed"}
    yield line(html="<p>one\0two\0three\0four"), set()
    yield line(html=""), {"no_text", "no_content"}
    yield line(html=" \n\t "), {"no_text", "no_content"}
    yield line(text=""), {"no_text", "no_content"}
    yield line(html="<script>var nothing = 'to read'</script><style>p{}</style>"), {"no_text"}
    yield line(body=base64.b64encode(bytes(range(256)) * 4_000).decode()), {"not_text", "no_text", ""}
    yield (
        line(body=base64.b64encode(b"\xff\xfe\x00" * 100_000).decode(), content_charset="utf-8"),
        {"not_text", "no_text", ""},
    )
    yield line(body="AAAA", content_charset="no-such-charset"), {"not_text", "no_text", ""}
    yield line(body_base64="not base64!"), {"bad_base64"}
    pdf = base64.b64encode(b"%PDF-1.7 " + bytes(range(256)) * 40).decode()
    yield line(body=pdf, mime="text/html"), {"not_text"}
    yield line(body=pdf), set()  # not a page
    yield line(html="<p>words " + "a" * 11 * MIB), {"too_big"}
    yield b'{"url": "https://bad.org/x", "text": "' + b"x" * 40 * MIB + b'"}', {"too_big"}
    yield line(url="javascript:alert(1)"), {"bad_url"}
    yield line(url="https://bad.org/" + "x" * 100_000, text="a b c d"), {"bad_url"}
    yield line(url="https://bad.org/\n\0\x01", text="a b c d"), {"bad_url", ""}
    yield line(url="https://" + "a." * 400 + "org/", text="a b c d"), {"bad_url", ""}
    yield line(url="https://[::1", text="a b c d"), {"bad_url"}
    yield line(url="", text="a b c d"), {"no_url"}
    yield line(text="a b c d", fetch_time="yesterday"), {"bad_time"}
    yield line(text="a b c d", fetch_time=-1), {"bad_time"}
    yield line(text="a b c d", fetch_time=1e300), {"bad_time"}
    yield line(text="a b c d", fetch_status=10**30), {"bad_field", "bad_json"}
    yield line(text="a b c d", fetch_status=-5), {"bad_field"}
    yield line(text=["a"]), {"bad_field"}
    yield line(fetch_status=301, fetch_redirect="/" + "\u00e9" * 60_000), {""}
    yield line(fetch_status=301, fetch_redirect="javascript:1"), {"", "no_content"}
    yield (
        b'{"url": "https://bad.org/\\ud800", "text": "lone surrogate"}',
        {"bad_json", "bad_url", "bad_utf8", "truncated"},
    )
    yield b'{"url": "https://bad.org/x", "text": "\\udfff \\ud800 lone"}', {"bad_json", "bad_utf8", "truncated", ""}
    yield (
        b'{"url": "https://bad.org/x", "html": "x", "content_charset": "\\ud800"}',
        {"bad_json", "bad_utf8", "truncated", "no_text", ""},
    )
    yield b"\xff\xfe\x00garbage\x80", {"bad_json", "bad_utf8"}
    yield b'{"url": ' * 1_000, {"bad_json", "bad_field"}
    yield b'{"a":' * 100_000 + b"1" + b"}" * 100_000, {"bad_json", "no_url", "bad_field"}
    yield b"[" * 200_000, {"bad_json"}
    yield b"null", {"bad_json", "bad_field"}
    yield b'{"url": "https://bad.org/x", "text": "cut', {"bad_json", "truncated"}


def test_hostile_lines_are_rejected_or_bounded(tmp_path: Path) -> None:
    hostile = list(bad_lines())
    path = tmp_path / "hostile.jsonl"
    with path.open("wb") as file:
        for number, (data, _) in enumerate(hostile):
            file.write(data + b"\n" + json.dumps(good(number)).encode() + b"\n")
    result = run(tmp_path, path)
    assert result.summary["pages"] == 2 * len(hostile)
    assert result.resident < RESIDENT
    by_line = {}
    for letter in map(json.loads, (tmp_path / "state" / "dead-letters.jsonl").read_text().splitlines()):
        by_line[letter["offset"]] = letter["reason"]
        assert letter["detail"]
        assert len(letter["detail"]) < 2_000
    for number, (data, reasons) in enumerate(hostile):
        assert by_line.get(2 * number, "") in (reasons or {""}), data[:100]
    assert not any(offset % 2 for offset in by_line)
    assert_good_pages(tmp_path, len(hostile))


def warc(body: bytes, number: int, encoding: str = "", content_type: str = "text/html") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n" + (
        f"Content-Encoding: {encoding}\r\n" if encoding else ""
    )
    block = head.encode() + b"\r\n" + body
    fields = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://bad.org/{number}\r\n"
        f"WARC-Date: 2026-01-01T00:00:00Z\r\nContent-Type: application/http; msgtype=response\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return fields.encode() + block + b"\r\n\r\n"


def bomb(size: int, level: int = 9) -> bytes:
    """Return compressed zeros."""
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    chunk = bytes(MIB)
    return b"".join(packer.compress(chunk) for _ in range(size // MIB)) + packer.flush()


def test_hostile_records_are_rejected_or_bounded(tmp_path: Path) -> None:
    """Ingest a page of 100 MB, bombs inside and around HTTP, wrong lengths, and garbage between records."""
    path = tmp_path / "hostile.warc.gz"
    with path.open("wb") as file:
        file.write(gzip.compress(warc(b"<p>" + b"large page " * (100 * MIB // 11), 1), 1))
        file.write(gzip.compress(warc(bomb(1024 * MIB), 2, "gzip"), 1))
        file.write(gzip.compress(warc(gzip.compress(bomb(256 * MIB)), 3, "gzip, gzip"), 1))
        file.write(gzip.compress(warc(b"not gzip at all", 4, "gzip")))
        file.write(gzip.compress(warc(b"<p>which encoding", 5, "nonsense")))
        file.write(gzip.compress(warc(b"<p>words of a page that is fine", 6)))
        file.write(b"rubbish between the members")
        file.write(gzip.compress(warc(b"<p>words of another page that is fine", 7)))
        file.write(
            gzip.compress(warc(b"<p>shorter than it says", 8).replace(b"Content-Length: ", b"Content-Length: 9"))
        )
        file.write(gzip.compress(warc(b"<p>words of the last page that is fine", 9)))
        file.write(bomb(512 * MIB))
    lines = tmp_path / "z.jsonl"
    lines.write_bytes(b"".join(json.dumps(good(n)).encode() + b"\n" for n in range(3)))
    result = run(tmp_path, path, lines)
    assert result.resident < RESIDENT
    counts = letters(tmp_path)
    assert counts["too_big"] >= 3
    assert counts["bad_encoding"] == counts["bad_length"] == counts["garbage"] == 1
    assert_good_pages(tmp_path, 3)
    with Store(tmp_path / "state") as store:
        view = View(store)
        assert all(view.captures(url_key(f"https://bad.org/{n}"))[0].document for n in (6, 7, 9))


def test_thousands_of_similar_pages_are_bounded(tmp_path: Path) -> None:
    """Ingest many near-duplicates of one template: each of them costs only a few comparisons."""
    rng = random.Random(2)
    template = [f"w{n}" for n in range(200)]
    path = tmp_path / "alike.jsonl"
    with path.open("wb") as file:
        for number in range(4_000):
            text = list(template)
            text[rng.randrange(200)] = f"page{number}"
            file.write(json.dumps(page(f"https://bad.org/{number}", " ".join(text), NOW)).encode() + b"\n")
        file.write(json.dumps(good(0)).encode() + b"\n")
    result = run(tmp_path, path)
    assert result.summary["new"] == 4_001
    assert result.resident < RESIDENT
    with Store(tmp_path / "state") as store:
        counters = meta.counters(store)
        limits = settings().limits
        assert counters["pairs_verified"] <= 4_001 * limits.candidates_max
        assert counters["bucket_postings_max"] > 0
        assert max(len(value) // 5 for _, value in store.scan(Family.BANDS)) <= limits.bucket_postings_max
        roots = {View(store).root(key) for key, _ in store.scan(Family.DOCUMENTS)}
        assert len(roots) < 100
    assert_good_pages(tmp_path, 1)


def test_invalid_characters_do_not_break_the_state(store: Store, tmp_path: Path) -> None:
    lines = [
        html("https://a.org/", "<title>\ufffd\ufeff</title><p>some words of a page &#xD800; here"),
        redirect("https://a.org/r", "https://a.org/\u00e9?\u4e2d=%ff%00"),
    ]
    take(store, tmp_path / "a.jsonl", lines, "one")
    view = View(store)
    captures = list(view.all_captures())
    assert len(captures) == 2
    assert [c.url for c in captures] == ["https://a.org/", "https://a.org/r"]
    assert list(check(store, postings_max=32)) == []


CRAWLS = [
    "archive-2008.arc.gz",
    "archive-2008.warc.gz",
    "commoncrawl-2008.arc.zst",
    "example.wacz",
    "govuk-2014-revisits.warc.gz",
    "iana-2014.warc.gz",
    "invalid-1.wacz",
    "no-http-headers.warc.gz",
    "resiliparse-2020.warc",
    "sample-2013.warc.gz",
    "valid-1.wacz",
    "valid-2.wacz",
]


@pytest.mark.parametrize("name", CRAWLS)
def test_real_crawls_are_ingested_or_rejected_with_a_reason(
    store: Store, tmp_path: Path, shared_data: Path, name: str
) -> None:
    path = tmp_path / name
    path.symlink_to(shared_data / "crawls" / name)
    if name == "invalid-1.wacz":  # contains no WARC
        with pytest.raises(NoPages, match="no_archive"):
            ingest(store, settings(), [str(path)], "one", now=NOW)
        assert not list(store.scan(Family.CAPTURES))
        return
    summary = ingest(store, settings(), [str(path)], "one", now=NOW)
    assert list(check(store, postings_max=32)) == []
    captures = len(list(store.scan(Family.CAPTURES)))
    assert captures or summary.rejected
    assert sum(summary.rejected.values()) == sum(letters(tmp_path).values())
    again = ingest(store, settings(), [str(path)], "two", now=NOW + 1)
    assert list(check(store, postings_max=32)) == []
    assert (again.new, again.pages) == (0, summary.pages)


def test_revisits_of_a_real_crawl_are_resolved(store: Store, tmp_path: Path, shared_data: Path) -> None:
    path = shared_data / "crawls" / "govuk-2014-revisits.warc.gz"
    summary = ingest(store, settings(), [str(path)], "one", now=NOW)
    assert summary.rejected.get("revisit_unresolved", 0) <= 1
    assert meta.counters(store)["documents"] > 0
