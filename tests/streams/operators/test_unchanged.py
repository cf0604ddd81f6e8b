"""unchanged: a page is recognised by the bytes that its URL served last time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from state.model import Capture
from streams.operators.unchanged import find_unchanged, fingerprint_page
from streams.page import Origin, Page

DOCUMENT = b"d" * 16
PAGE = Page(url="https://a.org/", time=5, body=b"<p>text", mime="text/html", origin=Origin("a.warc", 7))
PREVIOUS = Capture(
    key=PAGE.key,
    url=PAGE.url,
    sweep=1,
    time=2,
    status=200,
    document=DOCUMENT,
    raw=fingerprint_page(PAGE),
    extractor=1,
)


def recognised(page: Page, previous: Capture | None = PREVIOUS) -> bool:
    return find_unchanged([page], {} if previous is None else {previous.key: previous}, 2)[0] is not None


def test_the_same_bytes_repeat_the_document() -> None:
    (unchanged,) = find_unchanged([PAGE], {PAGE.key: PREVIOUS}, 2)
    assert unchanged is not None
    assert unchanged.capture == msgspec.structs.replace(PREVIOUS, sweep=2, time=5)
    assert unchanged.payload is None
    assert unchanged.origin == PAGE.origin


@pytest.mark.parametrize(
    "changed",
    [
        {"body": b"<p>other"},
        {"mime": "text/plain"},
        {"charset": "latin-1"},
        {"title": "a title"},
        {"status": 404},
        {"body": None},
        {"body": None, "text": "<p>text"},
        {"url": "https://a.org/other", "key": b"org,a)/other"},
    ],
)
def test_another_page_is_not_recognised(changed: dict[str, Any]) -> None:
    assert not recognised(msgspec.structs.replace(PAGE, **changed))


def test_the_last_capture_must_have_a_document_and_a_successful_status() -> None:
    assert recognised(PAGE)
    assert not recognised(PAGE, None)
    assert not recognised(PAGE, msgspec.structs.replace(PREVIOUS, document=None))
    assert not recognised(PAGE, msgspec.structs.replace(PREVIOUS, status=404))


def test_results_are_in_the_order_of_the_pages() -> None:
    other = Page(url="https://a.org/new", time=5, text="new")
    found = find_unchanged([other, PAGE, other], {PAGE.key: PREVIOUS}, 2)
    assert [unchanged is not None for unchanged in found] == [False, True, False]
