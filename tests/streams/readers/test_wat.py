"""WAT records, as Common Crawl writes them, become pages with links and without content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from state.model import LinkKind
from streams.page import SuppliedLink
from streams.readers.read_limits import ReadLimits
from tests.streams.readers.conftest import Build

URL = "http://a.org/x"
HEAD = {
    "Title": "A page",
    "Metas": [{"name": "viewport", "content": "width=device-width"}],
    "Link": [
        {"path": "LINK@/href", "url": "/style.css", "rel": "stylesheet"},
        {"path": "LINK@/href", "url": "http://a.org/canonical", "rel": "canonical"},
        {"path": "LINK@/href", "url": "/de/x", "rel": "alternate", "hreflang": "de"},
    ],
}
LINKS = [
    {"path": "IMG@/src", "url": "/logo.png", "alt": "Logo"},
    {"path": "A@/href", "url": "../y", "text": "Why", "rel": "nofollow noopener"},
    {"path": "A@/href", "url": "#top", "text": "Top"},
    {"path": "A@/href", "url": "http://b.org/", "title": "B"},
    {"path": "FORM@/action", "url": "/search", "method": "get"},
]


def metadata(status: str = "200", *, head: Any = HEAD, links: Any = LINKS, **headers: str) -> bytes:
    response = {
        "Response-Message": {"Status": status, "Version": "HTTP/1.1", "Reason": "OK"},
        "Headers": {"Content-Type": "text/html; charset=UTF-8", "Date": "Thu, 02 Jan 2020 03:04:05 GMT"} | headers,
        "HTML-Metadata": {"Head": head, "Links": links},
        "Entity-Length": "1234",
    }
    payload = {"Actual-Content-Type": "application/http; msgtype=response", "HTTP-Response-Metadata": response}
    header = {"WARC-Type": "response", "WARC-Target-URI": URL, "WARC-Date": "2020-01-02T03:04:05Z"}
    envelope = {"Format": "WARC", "WARC-Header-Metadata": header, "Payload-Metadata": payload}
    return json.dumps({"Container": {"Filename": "a.warc.gz", "Offset": "0"}, "Envelope": envelope}).encode()


def wat(build: type[Build], block: bytes) -> bytes:
    return build.warc(block, "metadata", Content_Type="application/json")


def test_a_response_has_links_and_no_content(build, pages):
    (page,) = pages(build.gz(wat(build, metadata())), "a.warc.wat.gz")
    assert (page.url, page.status, page.mime, page.title) == (URL, 200, "text/html", "A page")
    assert (page.time, page.body, page.text) == (1_577_934_245_000, None, None)
    assert page.links == [
        SuppliedLink("http://a.org/canonical", kind=LinkKind.CANONICAL),
        SuppliedLink("/de/x", "de", LinkKind.ALTERNATE),
        SuppliedLink("../y", "Why", nofollow=True),
        SuppliedLink("http://b.org/", "B"),
    ]


def test_a_base_and_a_redirect_are_resolved(build, pages):
    data = wat(build, metadata(head={"Base": "/root/"}, links=[{"path": "A@/href", "url": "z"}]))
    assert pages(data, "a.wat")[0].links == [SuppliedLink("http://a.org/root/z")]
    (page,) = pages(wat(build, metadata("301", Location="/new")), "a.wat")
    assert (page.status, page.redirect) == (301, "http://a.org/new")


def test_records_that_describe_no_response_are_skipped(build, pages):
    request: dict[str, Any] = {"Envelope": {"Payload-Metadata": {"HTTP-Request-Metadata": {"Headers": {}}}}}
    blocks = [json.dumps(request).encode(), b"{}", b'{"Envelope": {"Payload-Metadata": {"WARC-Info-Metadata": {}}}}']
    data = b"".join(wat(build, block) for block in blocks) + build.warc(b"via: x\r\n", "metadata")
    assert pages(data + wat(build, metadata()), "a.wat")[0].url == URL
    assert len(pages(data + wat(build, metadata()), "a.wat")) == 1


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (b"", "bad_json"),
        (b"[]", "bad_json"),
        (b'{"Envelope": ', "bad_json"),
        (b'{"Envelope": 1}', "bad_field"),
        (b"[" * 100_000, "bad_json"),
        (metadata("x"), "bad_field"),
        (metadata("9" * 5000), "bad_field"),
        (metadata(links=[{"path": 1}]), "bad_field"),
        (metadata(links={"a": 1}), "bad_field"),
        (b" " * 200_000, "too_big"),
    ],
)
def test_other_metadata_is_rejected(build, reasons, block, reason):
    limits = ReadLimits(page_bytes_max=120_000, header_bytes_max=1_024)
    assert reasons(wat(build, block) + build.warc(), "a.wat", limits=limits) == [reason, "page"]
