"""Feed damaged input to readers, URLs and codecs: `python -m tests.fuzz [--seconds N] [--seed N]`.

Small valid files and rows are damaged and compressed again. A reader must then raise nothing, give only known reasons,
stay within its limits of bytes and time, and resume from any of its positions. A codec may raise only ValueError. Each
input is generated from one number; a failure prints it, and `--replay TARGET:NUMBER` runs it again.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import random
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import zstandard

from state.codecs import capture_row, document_row, edge_row, link_chunk, link_list, posting_list, text_row
from state.model import Capture, DocumentRow, Edge, Link, Sketch
from streams.errors import BadUrl
from streams.page import REJECTION_REASONS, Page
from streams.readers.dispatch import read
from streams.readers.position import Position
from streams.readers.read_limits import ReadLimits
from streams.sketch.links import LinkExtractor
from streams.urls import directory_prefix, domain_ranges, key_url, path_words, url_key
from tests.streams.sketch.plain_links import PlainExtractor

SECONDS_MAX = 10.0  # per input of a few kilobytes
LIMITS = ReadLimits(
    page_bytes_max=50_000,
    line_bytes_max=60_000,
    header_bytes_max=4_000,
    skip_bytes_max=5_000_000,
    window_bytes_max=1 << 23,
)
TOKENS = [
    b"\r\n\r\n",
    b"\n",
    b"\0" * 9,
    b"WARC/1.0\r\n",
    b"Content-Length: 99999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: br, zstd, deflate\r\n",
    b"ffffffff\r\n",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18\xff\xff\xff\x7f",
    b"PK\x05\x06",
    b"http://a.org/ 1.2.3.4 20080101000000 text/html 999999\n",
    b'{"url": "http://a.org/", "text": ' + b"[" * 3000,
    b"\xff\xfe",
    b"\xed\xa0\x80",
    gzip.compress(bytes(2_000_000)),
    zstandard.compress(bytes(2_000_000)),
]
HTML = b"<html><title>A</title><body>one two three</body></html>"


def damage(data: bytes, chance: random.Random) -> bytes:
    """Change, remove, repeat or replace some bytes, insert tokens, or cut the end off."""
    parts = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(parts) + 1)
        end = min(len(parts), at + chance.choice((1, 4, 30, 300)))
        change = chance.randrange(6)
        if change == 0 and at < len(parts):
            parts[at] = chance.randrange(256)
        elif change == 1:
            del parts[at:end]
        elif change == 2:
            parts[at:at] = parts[at:end] * chance.choice((1, 2, 50))
        elif change == 3:
            parts[at:at] = chance.choice(TOKENS)
        elif change == 4:
            parts[at:end] = chance.randbytes(end - at)
        else:
            del parts[at:]
    return bytes(parts)


def http(body: bytes, *fields: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", "Content-Type: text/html", *fields, "", ""]).encode() + body


def warc(block: bytes, kind: str, i: int) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a.org/{i}\r\nWARC-Date: 2020-01-02T03:04:05Z\r\n"
    )
    return f"{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


BLOCKS = [
    http(HTML),
    http(b"%x\r\n%b\r\n0\r\n\r\n" % (len(HTML), HTML), "Transfer-Encoding: chunked"),
    http(gzip.compress(HTML), "Content-Encoding: gzip"),
    http(zstandard.compress(HTML), "Content-Encoding: zstd"),
    http(b"", "Location: ../x", status="301 Moved"),
    HTML,
]
WARCS = [warc(block, kind, i) for i, block in enumerate(BLOCKS) for kind in ("response", "revisit", "conversion")]
ARCS = [b"http://a.org/%d 192.0.2.7 20080509190241 text/html %d\n%b\n" % (i, len(b), b) for i, b in enumerate(BLOCKS)]
LINES = [
    b'{"url": "http://a.org/x", "fetched_at": "2020-01-02T03:04:05Z", "text": "hi"}\n',
    b'{"url": "http://a.org/y", "fetch_time": 1577934245, "html": "<p>h\xc3\xa9", "content_charset": "utf-8"}\n',
    b'{"url": "http://a.org/z", "fetch_time": 1577934245000, "body": "PHA+aGk=", "fetch_status": 404}\n',
    b'{"url": "http://a.org/z", "fetched_at": 1577934245, "fetch_redirect": "/x", "title": "T"}\n',
]


def crawl_file(chance: random.Random) -> bytes:
    """Return records of one format, some damaged, compressed in one of many ways, and perhaps damaged again."""
    records = [
        chance.choice(kind) for kind in [chance.choice((WARCS, ARCS, LINES))] for _ in range(chance.randint(1, 6))
    ]
    if chance.random() < 0.8:
        records = [damage(record, chance) if chance.random() < 0.5 else record for record in records]
    compress: Callable[[bytes], bytes] = chance.choice((bytes, gzip.compress, zstandard.compress))
    if chance.random() < 0.3:
        records = [b"".join(records)]
    data = b"".join(map(compress, records))
    if chance.random() < 0.15:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
            archive.writestr("archive/a.warc", data)
            archive.writestr("archive/b.warc", WARCS[0])
        data = file.getvalue()
    return damage(data, chance) if chance.random() < 0.5 else data


def check_readers(chance: random.Random) -> str:
    name = chance.choice(("a", "a.warc.gz", "a.arc", "a.jsonl", "a.jsonl.zst", "a.wacz"))
    path = Path(tempfile.gettempdir(), f"lostfound-fuzz-{os.getpid()}", name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(crawl_file(chance))
    results = list(read([path], LIMITS))
    for _, item in results:
        if isinstance(item, Page):
            url_key(item.url)
            assert len(item.body or b"") <= LIMITS.page_bytes_max
            assert item.body is None or item.text is None
        else:
            assert item.reason in REJECTION_REASONS, item
            assert len(item.detail) < 2000
    if results:
        i = chance.randrange(len(results))
        start = msgspec.json.decode(msgspec.json.encode(results[i][0]), type=Position)
        rest = [item for _, item in read([path], LIMITS, start=start)]
        assert rest == [item for _, item in results[i + 1 :]], f"after item {i}"
    reasons = Counter("page" if isinstance(item, Page) else item.reason for _, item in results)
    return reasons.most_common(1)[0][0] if reasons else "nothing"


URLS = [
    b"https://User@www.B\xc3\xbccher.example:8080/a/./b/../c.html?q=1#x",
    b"http://192.0.2.7/",
    b"http://[::1]:81/index.html",
]


def check_urls(chance: random.Random) -> str:
    url = damage(chance.choice(URLS), chance).decode("utf-8", "surrogateescape")
    try:
        key = url_key(url)
        path_words(url)
    except BadUrl:
        return "bad_url"
    assert min(key) > 0x20
    assert max(key) < 0x7F
    assert url_key(key_url(key)) == key or b":443)" in key
    assert key.startswith(directory_prefix(key))
    assert any(start <= key < stop for start, stop in domain_ranges(key))
    return "key"


A_CAPTURE = Capture(
    key=b"org,a)/x",
    url="http://a.org/x#y",
    sweep=1,
    time=1577934245000,
    status=200,
    document=b"d" * 16,
    raw_fingerprint=b"r" * 8,
    redirect="http://b.org/",
)
A_SKETCH = Sketch(
    document=b"d" * 16,
    signature=np.arange(120, dtype=np.uint8),
    sample=np.arange(9, dtype=np.uint32),
    exponent=1,
    shingles=40,
    tokens=50,
)
AN_EDGE = edge_row.encode(Edge(a=b"a" * 16, b=b"b" * 16, resemblance=0.75, containment=0.5, contained=1.0))
TEXTS = text_row.TextCodec({})
ROWS: dict[str, tuple[Callable[..., object], tuple[bytes, ...]]] = {
    "capture": (capture_row.decode, (capture_row.key_of(A_CAPTURE), capture_row.encode(A_CAPTURE))),
    "document": (document_row.decode, (b"d" * 16, document_row.encode(DocumentRow(A_SKETCH, 1577934245000)))),
    "edge": (edge_row.decode, AN_EDGE),
    "link chunk": (link_chunk.decode, (link_chunk.encode([Link(target=b"org,a)/x", anchor="An anchor")] * 3),)),
    "link list": (link_list.decode, (link_list.encode([b"chunk_id"] * 3),)),
    "posting": (posting_list.decode, (posting_list.encode([b"abcde", b"fghij"]),)),
    "text": (TEXTS.decode, (TEXTS.encode("A title", "a text " * 20),)),
}


def check_codecs(chance: random.Random) -> str:
    name = chance.choice(list(ROWS))
    decode, parts = ROWS[name]
    try:
        decode(*(damage(part, chance) if chance.random() < 0.7 else part for part in parts))
    except ValueError:
        return f"{name} refused"
    return f"{name} decoded"


LINKS = (
    b"""<base href='/b/'><link rel=canonical href="/c"><!-- <a href=/no> --><nav><a href="../d" rel=nofollow>D</a></nav>"""
    b"""<a href='?q#f'><img alt="An image"></a><area href=//e.org/ alt=E><script>"<a href=/no>"</script><a href=f>F"""
)
LINK_EXTRACTOR = LinkExtractor(links_max=50, anchor_chars_max=20)


def check_links(chance: random.Random) -> str:
    """Extract the links of a damaged page in compiled code and in plain Python."""
    markup, url = damage(LINKS, chance).decode("utf-8", "replace").encode(), "https://a.org/g/p"
    payload = LINK_EXTRACTOR.from_html(markup, url, url_key(url), is_short=True)
    assert payload == PlainExtractor(links_max=50, anchor_chars_max=20).from_html(
        markup, url, url_key(url), is_short=True
    )
    links = [link for chunk in payload.chunks for link in link_chunk.decode(chunk)] if payload else []
    assert len(links) <= 51  # with a redirect
    assert all(len(link.anchor) <= 20 and key_url(link.target) for link in links)
    return "links" if links else "no links"


TARGETS = {"readers": check_readers, "urls": check_urls, "codecs": check_codecs, "links": check_links}


def run(target: str, number: int) -> str:
    started = time.monotonic()
    outcome = TARGETS[target](random.Random(number))
    seconds = time.monotonic() - started
    assert seconds < SECONDS_MAX, f"{seconds:.1f} s"
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", "300")))
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--replay", metavar="TARGET:NUMBER")
    options = parser.parse_args()
    if options.replay:
        target, _, number = options.replay.partition(":")
        print(run(target, int(number)))
        return 0
    outcomes = {target: Counter[str]() for target in TARGETS}
    end = time.monotonic() + options.seconds
    number = options.seed * 10**6
    while time.monotonic() < end:
        for target in TARGETS:
            try:
                outcomes[target][run(target, number)] += 1
            except Exception:
                print(f"FAILED; to repeat: python -m tests.fuzz --replay {target}:{number}", file=sys.stderr)
                raise
        number += 1
    for target, counts in outcomes.items():
        print(f"{target}: {counts.total()} inputs:", ", ".join(f"{name} {n}" for name, n in counts.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
