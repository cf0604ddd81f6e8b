from __future__ import annotations

import zipfile

import pytest

from streams.readers import ReadLimits
from streams.values import Page


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_warcs_in_order(build, pages, method):
    records = [build.warc(url=f"http://a.org/{i}") for i in range(4)]
    data = build.wacz(
        {
            "archive/b.warc": records[2] + records[3],
            "datapackage.json": b"{}",
            "archive/a.warc.gz": build.gz(*records[:2]),
            "other/c.warc": build.warc(),
            "pages/pages.jsonl": b'{"url": "http://a.org/"}',
        },
        method,
    )
    found = pages(data, "a.wacz")
    assert [page.url for page in found] == [f"http://a.org/{i}" for i in range(4)]
    assert [page.origin.member for page in found] == ["archive/a.warc.gz"] * 2 + ["archive/b.warc"] * 2


def refused(items, data, limits=None):
    ((_, item),) = items(data, "a.wacz", limits)
    assert not isinstance(item, Page)
    assert item.detail
    return item.reason


def test_refused(build, items):
    good = build.wacz({"archive/a.warc": build.warc()})
    assert refused(items, build.wacz({"x.txt": b"x"})) == "no_archive"
    assert refused(items, build.wacz({})) == "no_archive"
    assert refused(items, good[:-30]) == "bad_zip"
    assert refused(items, b"PK\x03\x04" + b"x" * 50) == "bad_zip"
    assert refused(items, b"no zip at all") == "unknown_format"
    assert refused(items, good, ReadLimits(directory_bytes_max=10)) == "bad_zip"


def test_encrypted_and_unknown_methods(build, items):
    good = build.wacz({"archive/a.warc": build.warc()})
    entry = good.rindex(b"PK\x01\x02")
    for at, value, reason in ((8, b"\x01\x00", "bad_zip"), (10, b"\x63\x00", "bad_zip")):
        bad = good[: entry + at] + value + good[entry + at + 2 :]
        assert refused(items, bad) == reason


def test_damage_inside_a_member(build, kinds):
    bodies = [build.warc(build.http(bytes(range(256)) * 90)) for _ in range(9)]
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        data = bytearray(build.wacz({"archive/a.warc": b"".join(bodies), "archive/b.warc": build.warc()}, method))
        for at in (200, 500, 900):
            data[at] ^= 0xFF
        found = kinds(bytes(data), "a.wacz")
        assert found[-1] == "page"
        assert found.count("corrupt") >= 1


def test_zip_bomb_takes_bounded_memory(build, kinds):
    bomb = build.wacz({"archive/a.warc": bytes(50_000_000), "archive/b.warc": build.warc()}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    assert kinds(bomb, "a.wacz")[-1] == "page"
