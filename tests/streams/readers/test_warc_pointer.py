"""Pointers to WARC records are followed below one folder, and refused everywhere else."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from streams.page import Origin, Page, Rejected
from streams.readers.page_line import parse_line
from streams.readers.read_limits import ReadLimits

ORIGIN = Origin("t-pages", 7)
URL = "http://a.org/x"


def parse(folder, limits=None, **fields):
    data = json.dumps({"url": URL, "offset": 0, "length": 100} | fields).encode()
    item = parse_line(data, limits or ReadLimits(warc_folder=str(folder)), ORIGIN)[0]
    assert item.origin == ORIGIN
    return item


@pytest.mark.parametrize("packed", [False, True])
def test_the_page_comes_from_the_record(tmp_path, build, packed):
    other, record = build.warc(url="http://a.org/other"), build.warc()
    parts = [gzip.compress(part) if packed else part for part in (other, record, other)]
    folder = tmp_path / "crawl-data" / "CC-MAIN-2023"
    folder.mkdir(parents=True)
    (folder / "a.warc.gz").write_bytes(b"".join(parts))
    location = {"filename": "crawl-data/CC-MAIN-2023/a.warc.gz"}
    # Numbers are text in an index, and numbers in Common Crawl's columns.
    lines: list[dict[str, Any]] = [
        location | {"offset": str(len(parts[0])), "length": str(len(parts[1])), "status": "200", "mime": "text/html"},
        {
            "warc_filename": location["filename"],
            "warc_record_offset": len(parts[0]),
            "warc_record_length": len(parts[1]),
            "fetch_status": 200,
        },
    ]
    for fields in lines:
        page = parse(tmp_path, **fields)
        assert isinstance(page, Page), page
        assert page.url == URL
        assert page.body == build.html
        assert page.status == 200
        assert page.time == 1_577_934_245_000
    wrong = parse(tmp_path, **location, length=len(parts[0]))
    assert isinstance(wrong, Rejected)
    assert wrong.reason == "bad_pointer"
    assert "http://a.org/other" in wrong.detail


@pytest.mark.parametrize(
    "name",
    [
        "../secret.warc", "a/../../secret.warc", "/etc/passwd", "", ".", "folder", "nothing.warc", "a\0b", "x" * 5000,
        "http://a.org/a.warc", "s3://commoncrawl/a.warc", "file:///etc/passwd", "link.warc", "outside/secret.warc",
        "loop", "pipe", 5, ["a.warc"],
    ],
)  # fmt: skip
def test_a_path_out_of_the_folder_is_refused(tmp_path, build, name):
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    secret = tmp_path / "secret.warc"
    secret.write_bytes(build.warc())
    (root / "link.warc").symlink_to(secret)
    (root / "outside").symlink_to(tmp_path)
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    item = parse(root, filename=name)
    assert isinstance(item, Rejected)
    assert item.reason == "bad_pointer"


def test_links_within_the_folder_are_followed(tmp_path, build):
    record = build.warc()
    (tmp_path / "a.warc").write_bytes(record)
    (tmp_path / "b.warc").symlink_to("a.warc")
    assert isinstance(parse(tmp_path, filename="b.warc", length=len(record)), Page)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"offset": -1}, "bad_pointer"),
        ({"offset": None}, "bad_pointer"),
        ({"offset": True}, "bad_pointer"),
        ({"offset": 0.5}, "bad_pointer"),
        ({"length": 0}, "bad_pointer"),
        ({"length": "many"}, "bad_pointer"),
        ({"length": 1 << 40}, "too_big"),
        ({"offset": 1 << 40}, "bad_pointer"),
        ({"offset": 4}, "garbage"),
        ({"length": 40}, "truncated"),
        ({"filename": "b.warc.gz"}, "corrupt"),
        ({"filename": "request.warc", "length": "all"}, "bad_pointer"),
        ({"status": "OK"}, "bad_field"),
    ],
)
def test_a_pointer_that_does_not_lead_to_a_record_is_refused(tmp_path, build, fields, reason):
    (tmp_path / "a.warc").write_bytes(build.warc())
    (tmp_path / "b.warc.gz").write_bytes(b"\x1f\x8b\x08" + b"\xff" * 200)
    (tmp_path / "request.warc").write_bytes(build.warc(kind="request"))
    if fields.get("length") == "all":
        fields = fields | {"length": len(build.warc(kind="request"))}
    item = parse(tmp_path, **({"filename": "a.warc"} | fields))
    assert isinstance(item, Rejected), item
    assert item.reason == reason


def test_a_bomb_is_refused_at_the_limit(tmp_path, build):
    bomb = gzip.compress(build.warc(build.http(b"x" * (64 << 20))))
    (tmp_path / "bomb.warc.gz").write_bytes(bomb)
    limits = ReadLimits(warc_folder=str(tmp_path), page_bytes_max=1 << 20)
    item = parse(tmp_path, limits, filename="bomb.warc.gz", length=len(bomb))
    assert isinstance(item, Page)
    assert item.body is None
    assert item.content_error is not None
    assert item.content_error[0] == "too_big"


def test_without_a_folder_nothing_is_read(tmp_path, build):
    (tmp_path / "a.warc").write_bytes(build.warc())
    item = parse("", filename=str(Path("a.warc")))
    assert isinstance(item, Rejected)
    assert "warc_folder is not set" in item.detail
    # The line of an error is complete without its record.
    gone = parse("", filename="a.warc", status="404")
    assert isinstance(gone, Page)
    assert gone.status == 404


def test_the_pointer_of_a_line_with_content_is_ignored():
    item = parse("", filename="report.pdf", offset="far", length=[1], text="words")
    assert isinstance(item, Page)
    assert item.text == "words"
