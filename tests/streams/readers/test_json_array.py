"""JSON arrays are read element by element, within bounded memory, and reading resumes after any element."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from streams.page import Page
from streams.readers.dispatch import read
from streams.readers.read_limits import ReadLimits
from streams.readers.read_options import ReadOptions
from tests.streams.readers.conftest import assert_rejects_long_item_in_bounded_memory

ITEMS = [
    {"url": f"http://a.org/{n}", "body": f'<p class="x">brackets ]}}, [{{ "quotes\\" \\ and \u00e9\n {n}', "tags": [[], {"a": "]"}]}
    for n in range(7)
]  # fmt: skip
SCRAPY = ("[\n" + ",\n".join(json.dumps(item) for item in ITEMS) + "\n]").encode()
FORMS = {
    "scrapy": SCRAPY,
    "one line": json.dumps(ITEMS, ensure_ascii=False).encode(),
    "indented": json.dumps(ITEMS, indent=4).encode(),
    "byte order mark": b"\xef\xbb\xbf" + SCRAPY,
    "appended": SCRAPY.replace(b",\n", b"\n][\n", 1) + b"\n",
    "trailing comma": SCRAPY.replace(b"\n]", b",\n]"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["a.json", "a.bin", "a.jsonl"])
def test_every_element_is_a_page(pages, form, name):
    read_pages = pages(FORMS[form], name)
    assert [(page.url, page.body.decode()) for page in read_pages] == [(item["url"], item["body"]) for item in ITEMS]
    assert [page.origin.offset for page in read_pages] == list(range(7))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pack", ["plain", "gz", "zst"])
def test_reading_resumes_after_any_element(build, items, form, pack):
    data = FORMS[form] if pack == "plain" else getattr(build, pack)(FORMS[form])
    everything = items(data, "a.json")
    assert len(everything) == 7
    for index, (position, _) in enumerate(everything):
        assert items(data, "a.json", start=position) == everything[index + 1 :]


def test_an_array_that_ends_early_is_truncated_and_read_again_once_it_is_complete(items):
    data = json.dumps(ITEMS[:3]).encode()
    whole = items(data, "a.json")
    for length in range(3, len(data)):
        part = items(data[:length], "a.json")
        assert [item.reason for _, item in part if not isinstance(item, Page)] == ["truncated"]
        assert part[-1][0].cut_off
        assert [item for _, item in part[:-1]] == [item for _, item in whole[: len(part) - 1]]
        assert items(data, "a.json", start=part[-1][0]) == whole[len(part) - 1 :]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"url": 5}', "bad_field"), (b"{}", "no_url"), (b"5", "bad_json"), (b'"x"', "bad_json"), (b"null", "bad_json"),
        (b'{"url": }', "bad_json"), (b'{"url": "http://a.org/ }', "bad_json"), (b'{"url": "\xff"}', "bad_utf8"),
        (b'{"url": "http://a.org/", "text": "' + b"x" * 5000 + b'"}', "too_big"),
    ],
)  # fmt: skip
def test_a_bad_element_does_not_affect_the_others(reasons, bad, reason):
    good = json.dumps(ITEMS[0]).encode()
    results = reasons(
        b"[\n" + b",\n".join([good, bad, good, good]) + b"\n]", "a.json", ReadLimits(line_bytes_max=3000)
    )
    assert results == ["page", reason, "page", "page"]


def test_an_empty_array_has_no_pages(items):
    assert items(b"[]", "a.json") == items(b"[\n\n]\n", "a.json") == []


@pytest.mark.parametrize("filler", [b"x" * 8_000_000, b'\\"' * 4_000_000, b"\\u0041" * 2_000_000])
def test_memory_is_bounded_by_the_longest_element(tmp_path, filler):
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"url": "http://a.org/", "text": "' + filler + b'"},' + json.dumps(ITEMS[0]).encode() + b"]")
    assert_rejects_long_item_in_bounded_memory(path)


def test_columns_replace_fields_and_their_synonyms(tmp_path):
    item = {"link": "http://a.org/", "url": "http://other/", "content": "hi", "body": "<p>x", "when": "1577934245.5"}
    columns = {"url": "link", "text": "content", "fetch_time": "when"}
    for name, data in {"a.json": json.dumps([item]), "a.jl": json.dumps(item)}.items():
        (tmp_path / name).write_text(data)
        ((_, page),) = read([tmp_path / name], options=ReadOptions(columns=columns))
        assert (page.url, page.text, page.body, page.time) == ("http://a.org/", "hi", None, 1_577_934_245_500)


def test_columns_may_swap_names(tmp_path):
    (tmp_path / "a.jl").write_text('{"url": "http://a.org/", "title": "the text", "text": "the title"}')
    options = ReadOptions(columns={"text": "title", "title": "text"})
    ((_, page),) = read([tmp_path / "a.jl"], options=options)
    assert (page.text, page.title) == ("the text", "the title")


def test_an_element_with_many_keys_takes_memory_in_proportion_to_its_bytes(items):
    data = b'[{"url":"https://a.org/","text":"a b",' + b",".join(b'"%x":1' % n for n in range(30_000)) + b"}]"
    tracemalloc.start()
    items(data, "a.json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(data)
