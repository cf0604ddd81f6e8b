"""Going on after any item gives exactly the items that follow it, and no cut or damage raises."""

from __future__ import annotations

import random
import zipfile

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streams.readers import REASONS, Position, ReadLimits, read
from streams.values import Page

LIMITS = ReadLimits(page_bytes_max=20_000, line_bytes_max=30_000, header_bytes_max=4_000)


def line(i: int, size: int = 10) -> bytes:
    return b'{"url": "http://a.org/%d", "fetched_at": 1577934245, "text": "%b"}\n' % (i, b"x" * size)


class Samples(dict[str, bytes]):
    """Files by name."""

    def __repr__(self) -> str:  # hypothesis shows it beside each failing case
        return "samples"


@pytest.fixture(scope="module")
def samples(build):
    """A small file of each kind, good and bad records mixed."""
    bodies = [build.html, b"", random.Random(1).randbytes(9000), bytes(25_000), b"x" * 50]
    warcs = [build.warc(build.http(body), url=f"http://a.org/{i}") for i, body in enumerate(bodies)]
    warcs[1:1] = [
        build.warc(b"GET /", "request"),
        build.warc(Content_Length="x"),
        build.warc(WARC_Date="null"),
        build.warc(Content_Length="9"),
        b"rubbish\r\n\r\n",
    ]
    arcs = [build.arc(build.http(body), url=f"http://a.org/{i}") for i, body in enumerate(bodies)]
    arcs[2:2] = [b"rubbish\n\n", build.arc(url="http://"), build.arc(size=3)]
    lines = [line(0), b"{\n", b"\n", line(1, 40_000), line(2, 9000), b'{"url": 5}\n', line(3)]
    bad = build.gz(warcs[-1])
    members = {"archive/a.warc.gz": build.gz(*warcs), "archive/b.warc": b"".join(warcs), "archive/c.warc": b""}
    files = {
        "a.warc": b"".join(warcs),
        "a.warc.gz": build.gz(*warcs),
        "single.warc.gz": build.gz(b"".join(warcs)),
        "damaged.warc.gz": build.gz(warcs[0]) + bad[:40] + b"\xff" * 9 + bad[49:] + build.gz(*warcs),
        "a.warc.zst": build.zst(*warcs),
        "pairs.warc.zst": build.zst(b"".join(warcs[:4]), b"".join(warcs[4:])),
        "a.arc": b"".join(arcs),
        "a.arc.gz": build.gz(*arcs),
        "a.jsonl": b"".join(lines),
        "a.jsonl.gz": build.gz(b"".join(lines)),
        "split.jsonl.zst": build.zst(b"".join(lines)[:100], b"".join(lines)[100:]),
        "a.wacz": build.wacz(members),
        "deflated.wacz": build.wacz(members, zipfile.ZIP_DEFLATED),
    }
    return Samples(files)


KINDS = [
    "a.warc",
    "a.warc.gz",
    "single.warc.gz",
    "damaged.warc.gz",
    "a.warc.zst",
    "pairs.warc.zst",
    "a.arc",
    "a.arc.gz",
    "a.jsonl",
    "a.jsonl.gz",
    "split.jsonl.zst",
    "a.wacz",
    "deflated.wacz",
]


def check_resume(path) -> int:
    """Raises where going on after any item differs; returns how many items there are."""
    whole = list(read([path], LIMITS))
    assert all(isinstance(item, Page) or item.reason in REASONS for _, item in whole)
    for i, (position, _) in enumerate(whole):
        kept = msgspec.json.decode(msgspec.json.encode(position), type=Position)
        rest = read([path], LIMITS, start=kept)
        assert [item for _, item in rest] == [item for _, item in whole[i + 1 :]]
    return len(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_after_each_item(samples, tmp_path, kind):
    path = tmp_path / kind
    path.write_bytes(samples[kind])
    assert check_resume(path) >= 6


def test_across_files(samples, tmp_path):
    for kind in KINDS:
        (tmp_path / kind).write_bytes(samples[kind])
    whole = list(read([tmp_path], LIMITS))
    for i in range(0, len(whole), 7):
        rest = read([tmp_path], LIMITS, start=whole[i][0])
        assert [item for _, item in rest] == [item for _, item in whole[i + 1 :]]


@pytest.mark.parametrize("kind", ["a.warc", "a.warc.gz", "a.warc.zst", "a.arc", "a.jsonl", "a.jsonl.gz", "a.wacz"])
def test_cut_at_every_byte(build, tmp_path, kind):
    record = build.arc() if "arc" in kind and "warc" not in kind else build.warc()
    parts = [line(i) for i in range(3)] if "jsonl" in kind else [record] * 3
    pack = {"gz": build.gz, "zst": build.zst}.get(kind.rpartition(".")[2])
    data = (
        pack(*parts)
        if pack
        else build.wacz({"archive/a.warc": b"".join(parts)})
        if kind == "a.wacz"
        else b"".join(parts)
    )
    path = tmp_path / kind
    most = 0
    for end in range(len(data) + 1):
        path.write_bytes(data[:end])
        found = [item for _, item in read([path])]
        pages = sum(isinstance(item, Page) for item in found)
        assert pages >= most
        most = pages
        assert all(isinstance(item, Page) for item in found[:-1])
        if found and not isinstance(found[-1], Page):
            assert found[-1].reason in {"truncated", "bad_zip", "no_archive", "unknown_format", "garbage"}
    assert most == 3


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32))
def test_damaged_files_resume_too(samples, tmp_path, kind, seed):
    chance = random.Random(seed)
    data = bytearray(samples[kind])
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        if chance.random() < 0.5:
            data[at : at + 1] = chance.randbytes(1)
        else:
            del data[at : at + chance.randint(1, 200)]
    path = tmp_path / kind
    path.write_bytes(data)
    check_resume(path)
