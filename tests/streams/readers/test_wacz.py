"""The WARCs in a WACZ are read; damaged and hostile zips are rejected."""

from __future__ import annotations

import gzip
import struct
import zipfile

import pytest

from streams.page import Page
from streams.readers.read_limits import ReadLimits


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_warcs_of_the_archive_folder_are_read_in_order(build, pages, method):
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
    results = pages(data, "a.wacz")
    assert [page.url for page in results] == [f"http://a.org/{i}" for i in range(4)]
    assert [page.origin.member for page in results] == ["archive/a.warc.gz"] * 2 + ["archive/b.warc"] * 2


def rejection_reason(items, data, limits=None):
    ((_, item),) = items(data, "a.wacz", limits)
    assert not isinstance(item, Page)
    assert item.detail
    return item.reason


def test_a_zip_without_warcs_and_other_files_are_rejected(build, items):
    good = build.wacz({"archive/a.warc": build.warc()})
    assert rejection_reason(items, build.wacz({"x.txt": b"x"})) == "no_archive"
    assert rejection_reason(items, build.wacz({})) == "no_archive"
    assert rejection_reason(items, good[:-30]) == "bad_zip"
    assert rejection_reason(items, b"PK\x03\x04" + b"x" * 50) == "bad_zip"
    assert rejection_reason(items, b"no zip at all") == "unknown_format"
    assert rejection_reason(items, good, ReadLimits(directory_bytes_max=10)) == "bad_zip"


def test_encryption_and_unknown_methods_are_rejected(build, items):
    good = build.wacz({"archive/a.warc": build.warc()})
    entry = good.rindex(b"PK\x01\x02")
    for at, value, reason in ((8, b"\x01\x00", "bad_zip"), (10, b"\x63\x00", "bad_zip")):
        bad = good[: entry + at] + value + good[entry + at + 2 :]
        assert rejection_reason(items, bad) == reason


def test_damage_affects_only_its_member(build, reasons):
    bodies = [build.warc(build.http(bytes(range(256)) * 90)) for _ in range(9)]
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        data = bytearray(build.wacz({"archive/a.warc": b"".join(bodies), "archive/b.warc": build.warc()}, method))
        for at in (200, 500, 900):
            data[at] ^= 0xFF
        results = reasons(bytes(data), "a.wacz")
        assert results[-1] == "page"
        assert results.count("corrupt") >= 1


def test_a_zip_bomb_is_skipped(build, reasons):
    bomb = build.wacz({"archive/a.warc": bytes(50_000_000), "archive/b.warc": build.warc()}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    assert reasons(bomb, "a.wacz")[-1] == "page"


def test_a_nested_zip_is_rejected_and_the_other_members_are_read(build, reasons):
    inner = build.wacz({"archive/a.warc": build.warc()})
    data = build.wacz({"archive/a.warc": build.warc(), "archive/b.warc": inner, "archive/c.warc": build.warc()})
    assert reasons(data, "a.wacz") == ["page", "unknown_format", "page"]


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_methods_without_bounded_reads_are_rejected(build, reasons, method):
    data = bytearray(build.wacz({"archive/a.warc": build.warc() * 9, "archive/b.warc": build.warc()}, method))
    assert reasons(bytes(data), "a.wacz") == ["bad_zip", "bad_zip"]
    data[50] ^= 0xFF
    assert reasons(bytes(data), "a.wacz") == ["bad_zip", "bad_zip"]


SHORT = ReadLimits(skip_bytes_max=1 << 20, page_bytes_max=1 << 16, header_bytes_max=1 << 12)


def test_at_most_skip_bytes_max_are_decompressed_per_record(build, items):
    """A plain WARC, deflated by the zip, ends at the limit; a gzipped one continues at its next record."""
    large = build.warc(build.http(bytes(8 << 20)))
    data = build.wacz(
        {"archive/a.warc": large + build.warc(), "archive/b.warc.gz": build.gz(large, build.warc())},
        zipfile.ZIP_DEFLATED,
    )
    results = items(data, "a.wacz", SHORT)
    assert [position.member[8] for position, _ in results] == ["a", "b", "b"]
    assert ["skip_bytes_max" in getattr(item, "detail", "") for _, item in results] == [True, True, False]


@pytest.mark.parametrize(
    "empty",
    [
        bytes(8 << 20),
        gzip.compress(b"", mtime=0) * 200_000,
        gzip.compress(b"", mtime=0)[:10] + b"\0\0\0\xff\xff" * 1_000_000,
    ],
    ids=["zeros", "empty members", "empty blocks"],
)
def test_empty_data_in_a_deflated_member_counts_for_the_limit_too(build, items, empty):
    data = build.wacz(
        {
            "archive/a.warc.gz": build.gz(build.warc()) + empty + build.gz(build.warc()),
            "archive/b.warc": build.warc(),
        },
        zipfile.ZIP_DEFLATED,
    )
    assert len(data) < 20_000
    results = items(data, "a.wacz", SHORT)
    assert [position.member[8] for position, _ in results] == ["a", "a", "b"]
    assert ["skip_bytes_max" in getattr(item, "detail", "") for _, item in results] == [False, True, False]


def test_skipping_in_a_stored_member_has_no_limit_as_in_a_file(build, reasons):
    data = build.warc(build.http(bytes(8 << 20))) + build.warc()
    assert reasons(build.wacz({"archive/a.warc": data}), "a.wacz", SHORT) == ["too_big", "page"]
    assert reasons(data, "a.warc", SHORT) == ["too_big", "page"]


END = b"PK\x05\x06"


def large_directory(build):
    """Return a zip with a directory larger than `SMALL_DIRECTORY`, and the offset of its end record."""
    data = build.wacz({f"archive/{number}.warc": b"" for number in range(100)})
    return data, data.rindex(END)


SMALL_DIRECTORY = ReadLimits(directory_bytes_max=1000)


def with_a_second_record_inside_the_last(build):
    data, end = large_directory(build)
    return data[: end + 4] + END + data[end + 8 :]


def with_a_locator_beside_a_small_size(build, locator_offset=None):
    data, end = large_directory(build)
    size, offset = (int.from_bytes(data[end + at : end + at + 4], "little") for at in (12, 16))
    record = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 100, 100, size, offset)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end if locator_offset is None else locator_offset, 1)
    return data[:end] + record + locator + data[end : end + 12] + (46).to_bytes(4, "little") + data[end + 16 :]


def with_a_locator_of_another_offset(build):
    return with_a_locator_beside_a_small_size(build, 0)


@pytest.mark.parametrize(
    "hidden",
    [
        with_a_second_record_inside_the_last,
        with_a_locator_beside_a_small_size,
        with_a_locator_of_another_offset,
    ],
)
def test_a_big_directory_cannot_be_hidden_from_the_limit(build, items, hidden):
    data = hidden(build)
    assert rejection_reason(items, data, SMALL_DIRECTORY) == "bad_zip"


def test_the_detail_names_the_limit_of_the_directory(build, items):
    data = with_a_locator_beside_a_small_size(build)
    ((_, item),) = items(data, "a.wacz", SMALL_DIRECTORY)
    assert "directory_bytes_max 1000" in item.detail
    assert items(data, "a.wacz") == []  # a hundred empty files, without the limit
