"""Real crawl files from 2008 to 2020: their pages are complete, and reading resumes anywhere in them."""

from __future__ import annotations

from collections import Counter

import pytest

from streams.page import Page
from streams.readers.dispatch import read
from streams.urls import key_host, url_key

# Pages by status, counted from the WARC-Type and status lines of the decompressed files.
CRAWLS = {
    "archive-2008.arc.gz": Counter({200: 214, 404: 40, 302: 5, 301: 2}),
    "archive-2008.warc.gz": Counter({200: 214, 404: 40, 302: 5, 301: 2}),
    "commoncrawl-2008.arc.zst": Counter({200: 131, 404: 5, 406: 3, 301: 3, 302: 3}),
    "example.wacz": Counter({200: 14}),
    "govuk-2014-revisits.warc.gz": Counter({200: 57, 404: 3, 302: 1, 403: 1}),
    "iana-2014.warc.gz": Counter({200: 167, 302: 4}),
    "no-http-headers.warc.gz": Counter({200: 128}),
    "resiliparse-2020.warc": Counter({200: 16}),
    "sample-2013.warc.gz": Counter({200: 70, 404: 1, 302: 2, 303: 1, 301: 1}),
    "valid-1.wacz": Counter({200: 1}),
    "valid-2.wacz": Counter({200: 1}),
}
REVISITS = {"iana-2014.warc.gz": 123, "sample-2013.warc.gz": 10}


@pytest.fixture
def crawl(shared_data):
    return lambda name: shared_data / "crawls" / name


@pytest.mark.parametrize("name", CRAWLS)
def test_all_pages_are_read(crawl, name):
    results = [item for _, item in read([crawl(name)])]
    assert all(isinstance(item, Page) for item in results)
    assert Counter(page.status for page in results) == CRAWLS[name]
    assert sum(page.original_url is not None for page in results) == REVISITS.get(name, 0)
    assert all(page.time > 10**12 for page in results)
    assert all((page.redirect is not None) == (page.status in {301, 302, 303}) for page in results)


def test_warc_and_arc_of_one_crawl_agree(crawl):
    arc, warc = ([item for _, item in read([crawl(f"archive-2008.{kind}.gz")])] for kind in ("arc", "warc"))
    assert [(a.url, a.status, a.body, a.redirect) for a in arc] == [
        (w.url, w.status, w.body, w.redirect) for w in warc
    ]


def test_an_arc_that_strict_readers_refuse_has_all_its_hosts(crawl):
    assert len({key_host(url_key(page.url)) for _, page in read([crawl("commoncrawl-2008.arc.zst")])}) == 145


def test_a_wacz_without_a_warc_is_rejected(crawl):
    ((_, item),) = read([crawl("invalid-1.wacz")])
    assert item.reason == "no_archive"
    assert "test.txt" in item.detail


def test_a_folder_has_the_pages_of_all_its_files(crawl):
    results = [item for _, item in read([crawl("")])]
    assert len(results) == sum(sum(counts.values()) for counts in CRAWLS.values()) + 1


@pytest.mark.parametrize("name", CRAWLS)
def test_reading_resumes_after_any_item(crawl, name):
    whole = list(read([crawl(name)]))
    for i in range(0, len(whole), 1 + len(whole) // 20):
        rest = read([crawl(name)], start=whole[i][0])
        assert [item for _, item in rest] == [item for _, item in whole[i + 1 :]]


def test_bodies_are_decoded(crawl):
    """Chunked, gzipped and already decoded bodies from 2008 to 2020 decode to markup."""
    for name in ("archive-2008.warc.gz", "commoncrawl-2008.arc.zst", "iana-2014.warc.gz", "resiliparse-2020.warc"):
        html = [
            page for _, page in read([crawl(name)]) if page.body and page.mime == "text/html" and page.status == 200
        ]
        markup = [page for page in html if b"<" in (page.body or b"")[:2000]]
        assert len(markup) >= 0.95 * len(html) > 0
        assert not any(page.body.startswith(b"\x1f\x8b") for page in html)


def test_sweeps_in_jsonl_have_only_pages(shared_data):
    for path in sorted((shared_data / "moves").glob("*/*.jsonl.zst")):
        results = [item for _, item in read([path])]
        assert all(isinstance(item, Page) for item in results)
        assert len(results) > 100
