"""sketch: each page becomes a capture, with a payload if it has text and a rejection if it should have."""

from __future__ import annotations

from typing import Any

import pytest

from streams.operators.capture import fingerprint_page
from streams.operators.messages import SketchedPage
from streams.operators.sketch import SketchOperator, SketchResults, SketchTask
from streams.page import NotAPage, Origin, Page, Rejected
from tests.samples import NOW, settings

URL = "https://a.org/some/page.html"
TEXT = "a few words that make a text"


def run(*pages: Page, **policy: Any) -> SketchResults:
    custom = settings({"policy": policy})
    return SketchOperator(custom.scheme, custom.policy, custom.limits)(SketchTask(3, list(pages)))


def page(**fields: Any) -> Page:
    return Page(**{"url": URL, "time": NOW, **fields})


def sketched(result: list[SketchedPage | Rejected | NotAPage]) -> SketchedPage:
    assert isinstance(result[0], SketchedPage)
    return result[0]


def test_a_page_with_text_has_a_document_and_its_payload() -> None:
    fetched = page(text=TEXT)
    (result,) = run(fetched)
    (only,) = result
    assert isinstance(only, SketchedPage)
    assert only.payload is not None
    assert only.capture.document == only.payload.document
    assert only.capture.key == fetched.key
    assert only.capture.sweep == 3
    assert only.capture.raw_fingerprint == fingerprint_page(fetched)
    assert only.payload.text
    assert only.payload.samples
    assert only.words


def test_texts_and_indexes_are_left_out_when_the_policy_says_so() -> None:
    (result,) = run(page(text=TEXT), keep_texts=False, index_find=False)
    payload = sketched(result).payload
    assert payload is not None
    assert payload.text == payload.samples == sketched(result).words == b""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": "... !"}, "no_text"),
        ({"body": b"%PDF-1.7", "mime": "text/html"}, "not_text"),
        ({"content_error": ("bad_encoding", "does not decode")}, "bad_encoding"),
    ],
)
def test_a_page_without_usable_text_has_a_capture_and_a_rejection(fields: dict[str, Any], reason: str) -> None:
    ((capture, rejected),) = run(page(**fields))
    assert isinstance(capture, SketchedPage)
    assert capture.capture.document is None
    assert isinstance(rejected, Rejected)
    assert rejected.reason == reason
    assert rejected.url == URL


@pytest.mark.parametrize(
    "fields",
    [
        {"body": b"var x", "mime": "text/javascript"},
        {"body": b"%PDF-1.7", "mime": "application/pdf"},
        {"content_error": ("too_big", "a film"), "mime": "video/mp4"},
        {"original_url": "https://b.org/logo", "mime": "image/png"},
    ],
)
def test_a_response_that_is_not_a_page_has_a_capture_and_is_not_rejected(fields: dict[str, Any]) -> None:
    origin = Origin("a.warc", 7)
    ((capture, not_a_page),) = run(page(**fields, origin=origin))
    assert isinstance(capture, SketchedPage)
    assert (capture.capture.document, capture.original_key, capture.words) == (None, None, b"")
    assert not_a_page == NotAPage(fields["mime"], origin)


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 404, "mime": "image/png"},
        {"status": 301, "mime": "image/png", "redirect": "https://a.org/new.png"},
        {"status": 200, "url": "https://a.org/a.js", "redirect": "https://a.org/b.js"},
        {"status": 304, "url": "https://a.org/a.js"},
        {"original_url": "https://a.org/Node.js", "url": "https://a.org/Node.js"},
    ],
)
def test_the_type_of_an_error_a_redirect_or_an_untyped_revisit_has_no_effect(fields: dict[str, Any]) -> None:
    ((only,),) = run(page(**fields))
    assert isinstance(only, SketchedPage)


def test_a_media_type_can_be_added() -> None:
    style_sheet = page(url="https://a.org/a.css", body=b"body { color: red }", mime="text/css")
    assert isinstance(run(style_sheet)[0][1], NotAPage)
    (result,) = run(style_sheet, media_types=["Text/CSS"])
    assert sketched(result).payload is not None


@pytest.mark.parametrize("fields", [{"status": 404}, {"status": 301, "redirect": "https://a.org/new"}])
def test_an_error_and_a_redirect_have_a_capture_only(fields: dict[str, Any]) -> None:
    ((only,),) = run(page(**fields))
    assert isinstance(only, SketchedPage)
    assert only.capture.document is None
    assert only.capture.redirect == fields.get("redirect")


def test_a_meta_refresh_is_a_redirect() -> None:
    (result,) = run(page(body=b'<meta http-equiv="refresh" content="0; url=/new"><p>moved', mime="text/html"))
    assert len(result) == 1
    assert sketched(result).capture.document is None
    assert sketched(result).capture.redirect == "https://a.org/new"


def test_a_revisit_names_the_url_that_it_repeats() -> None:
    own, other, bad = run(page(status=304), page(original_url="https://b.org/"), page(original_url="nowhere"))
    assert sketched(own).original_key == page().key
    assert sketched(own).words == b""
    assert sketched(other).original_key == b"org,b)/"
    assert sketched(other).words, "the words of its own URL are indexed"
    assert [result.reason for result in bad if isinstance(result, Rejected)] == ["bad_url"]


def test_results_are_in_the_order_of_the_pages() -> None:
    texts = [TEXT, "", "other words than those before"]
    results = run(*(page(url=f"{URL}?{n}", text=text or None) for n, text in enumerate(texts)))
    assert [sketched(result).capture.url for result in results] == [f"{URL}?{n}" for n in range(3)]
    assert [sketched(result).payload is not None for result in results] == [True, False, True]
