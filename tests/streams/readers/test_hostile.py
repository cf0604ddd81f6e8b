"""Input that is made to be slow is read in time proportional to its size, not to its square."""

from __future__ import annotations

import time

import pytest

from streams.readers.read_limits import ReadLimits

MIB = 1 << 20
SECONDS_MAX = 6.0  # each input takes well under one; quadratic time would be minutes


SPACES = b" " * 60_000
ARC_LINE = b"http://a.org/x 192.0.2.7 20080509190241 text/html "
HOSTILE = {
    "arc of spaces": ("a.arc", lambda build: build.arc() + (b"http://a.org/" + b" " * 16_000 + b"\n") * 200),
    "arc of one long line": ("a.arc", lambda build: build.arc() + b"http://a.org/" + b" \t" * 2 * MIB),
    "arc of dates": ("a.arc", lambda build: build.arc() + (b"http://a" + b" 1.2.3.4 20080101" * 900 + b"\n") * 200),
    "arc of numbers": ("a.arc", lambda build: build.arc() + (ARC_LINE + b"9 " * 7_000 + b"x\n") * 200),
    "charset": (
        "a.warc",
        lambda build: build.warc(build.http(Content_Type="text/html; charset=" + " " * 50_000)) * 40,
    ),
    "type": ("a.warc", lambda build: build.warc(build.http(Content_Type="a" * 50_000)) * 40),
    "date": ("a.warc", lambda build: build.warc(WARC_Date="null", Date="1 " * 25_000) * 40),
    "url of spaces": ("a.warc", lambda build: build.warc().replace(b"http://a.org/x", b"<\t" + SPACES + b"x") * 40),
    "folded header": (
        "a.warc",
        lambda build: build.warc().replace(b"\r\n\r\n", b"\r\nX: y" + b"\r\n z" * 15_000 + b"\r\n\r\n", 1) * 40,
    ),
    "versions": ("a.warc", lambda build: build.warc() + b"rubbish " + b"WARC/1.1" * 500_000),
    "headers": ("a.warc", lambda build: b"WARC/1.0\r\nWARC-\r\n\r\n" * 20_000),
    "location": ("a.warc", lambda build: build.warc(build.http(b"", "302 Found", Location="/../" * 12_000)) * 40),
    "chunks": ("a.warc", lambda build: build.warc(build.http(b"1\r\na\r\n" * 300_000, Transfer_Encoding="chunked"))),
    "members": (
        "a.warc",
        lambda build: build.warc(build.http(build.gz(b"") * 400_000, Content_Encoding="gzip")),
    ),
    "interim": ("a.warc", lambda build: build.warc(b"HTTP/1.1 100\r\n\r\n" * 500_000 + build.http())),
    "chunk extension": (
        "a.warc",
        lambda build: build.warc(build.http(b"1;" + b"x" * MIB, Transfer_Encoding="chunked")),
    ),
    "gzip magic": (
        "a.warc.gz",
        lambda build: build.gz(build.warc()) + b"x" + b"\x1f\x8b\x08" * 300_000 + build.gz(build.warc()),
    ),
    "zstd magic": (
        "a.warc.zst",
        lambda build: build.zst(build.warc()) + b"x" + b"\x28\xb5\x2f\xfd" * 100_000 + build.zst(build.warc()),
    ),
    "empty members": ("a.warc.gz", lambda build: build.gz(b"") * 100_000 + build.gz(build.warc())),
    "zeros": ("a.warc", lambda build: build.warc() + bytes(8 * MIB) + build.warc()),
    "newlines": ("a.jsonl", lambda build: b"\n" * 2 * MIB),
    "braces": ("a.jsonl", lambda build: b"{" * 8 * MIB),
    "keys": ("a.jsonl", lambda build: b"{" + b'"a":1,' * MIB + b'"b":1}\n'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_takes_linear_time(build, items, name):
    file, write = HOSTILE[name]
    data = write(build)
    began = time.process_time()
    items(data, file, ReadLimits(header_bytes_max=256 << 10))
    assert time.process_time() - began < SECONDS_MAX
