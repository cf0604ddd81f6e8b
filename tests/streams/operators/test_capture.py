"""capture: every page is written, and a document is passed on if its URL did not have it last time."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from state.model import Capture
from streams.operators.capture import (
    CaptureResult,
    OriginalQuery,
    capture,
    find_unchanged,
    fingerprint_page,
    original_queries,
    resolve,
    url_keys,
)
from streams.operators.messages import Sighting, SketchedPage
from streams.page import Origin, Page, SuppliedLink
from tests.samples import settings

URL, OTHER = b"org,a)/x", b"org,a)/y"
QUERY = OriginalQuery(URL, revisit_sweep=1, revisit_time=20, original_time_s=-1)
DOCUMENTS = {name: name.encode() * 16 for name in "ABC"}


def seen(document: str | None, time: int, key: bytes = URL, sweep: int = 1, status: int = 200) -> SketchedPage:
    document_id = DOCUMENTS[document] if document else None
    raw_fingerprint, url = (document_id or b"")[:8], "https://a.org/" + key[-1:].decode()
    return SketchedPage(
        capture=Capture(
            key=key,
            url=url,
            sweep=sweep,
            time=time,
            status=status,
            document=document_id,
            raw_fingerprint=raw_fingerprint,
        )
    )


def revisit(original: bytes, time: int, key: bytes = URL, sweep: int = 1) -> SketchedPage:
    return msgspec.structs.replace(seen(None, time, key, sweep), original_key=original)


def last_of(captures: list[Capture]) -> dict[bytes, Capture]:
    return {capture.key: capture for capture in sorted(captures, key=lambda c: (c.sweep, c.time, c.tiebreaker))}


def written(captured: CaptureResult) -> list[Capture]:
    return [capture_row.decode(*row) for row in sorted(captured.changes.puts_of(Family.CAPTURES).items())]


def sent(captured: CaptureResult) -> list[tuple[bytes, bytes, int]]:
    return [(sighting.document, sighting.key, sighting.time) for sighting in captured.sightings]


def test_every_url_is_looked_up_once() -> None:
    pages = [seen("A", 1), seen("B", 2), seen("A", 3, OTHER), revisit(OTHER, 4)]
    assert url_keys(pages) == [URL, OTHER]
    assert original_queries(pages) == [(OTHER, 1, 4, -1)]


@pytest.mark.parametrize(
    ("history", "documents", "unchanged"),
    [
        ("A", "A", 0),
        ("AA", "A", 1),
        ("AB", "AB", 0),
        ("ABA", "ABA", 0),
        ("AABB", "AB", 2),
        ("A-A", "AA", 0),  # the URL had no document in between
        ("-", "", 0),
    ],
)
def test_a_document_is_passed_on_if_the_url_did_not_have_it_last_time(
    history: str, documents: str, unchanged: int
) -> None:
    """One batch and one batch per page give the same."""
    pages = [seen(name.replace("-", "") or None, 10 + n) for n, name in enumerate(history)]
    together = capture(pages, {})
    assert [d for d, _, _ in sent(together)] == [DOCUMENTS[name] for name in documents]
    assert together.unchanged == unchanged
    assert len(written(together)) == len(together.captures) == len(history)
    sent_one_by_one: list[tuple[bytes, bytes, int]] = []
    stored: list[Capture] = []
    for page in pages:
        result = capture([page], last_of(stored))
        sent_one_by_one += sent(result)
        stored += written(result)
    assert sent_one_by_one == sent(together)


@given(
    pages=st.lists(
        st.tuples(st.sampled_from([*"ABC", None]), st.integers(1, 2), st.sampled_from([URL, OTHER])),
        min_size=1,
        max_size=6,
    ),
    order=st.randoms(use_true_random=False),
)
def test_any_order_and_repeats_give_the_same_rows_and_first_sightings(
    pages: list[tuple[str | None, int, bytes]], order: object
) -> None:
    made = [seen(name, 100 * sweep + n, key, sweep) for n, (name, sweep, key) in enumerate(pages)]
    expected = {(p.capture.document, p.capture.key): p.capture.time for p in reversed(made) if p.capture.document}
    for page in made:
        if page.capture.document:
            location = (page.capture.document, page.capture.key)
            expected[location] = min(expected[location], page.capture.time)
    shuffled = made + made[:2]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    rows: dict[bytes, bytes] = {}
    first_seen: dict[tuple[bytes, bytes], int] = {}
    for page in shuffled:
        captured = capture([page], last_of([capture_row.decode(*row) for row in rows.items()]))
        assert set(captured.possibly_stored_keys) >= {
            row for row in captured.changes.puts_of(Family.CAPTURES) if row in rows
        }
        rows.update(captured.changes.puts_of(Family.CAPTURES))
        for sighting in captured.sightings:
            location = (sighting.document, sighting.key)
            first_seen[location] = min(sighting.time, first_seen.get(location, sighting.time))
    assert rows == capture(made, {}).changes.puts_of(Family.CAPTURES)
    assert first_seen == expected


def test_captures_of_one_url_at_the_same_instant_are_distinct() -> None:
    """A redirect from http and two pages share a key and a second; a page is the last capture."""
    hop = SketchedPage(
        capture=Capture(
            key=URL,
            url="http://a.org/x",
            sweep=1,
            time=5,
            status=301,
            document=None,
            raw_fingerprint=b"",
            redirect="https://a.org/x",
        )
    )
    for order in permutations([hop, seen("A", 5), seen("B", 5)]):
        captured = capture(list(order), {})
        assert len(written(captured)) == 3
        assert last_of(written(captured))[URL].document
        assert {d for d, _, _ in sent(captured)} == {DOCUMENTS["A"], DOCUMENTS["B"]}


class TestRevisits:
    def test_a_revisit_gets_the_document_of_the_original(self) -> None:
        before = {QUERY: [seen("A", 10).capture]}
        resolved, unresolved = resolve([revisit(URL, 20)], before)
        assert unresolved == []
        (page,) = resolved
        assert page.original_key is None
        assert (page.capture.document, page.capture.raw_fingerprint, page.capture.time) == (
            DOCUMENTS["A"],
            b"A" * 8,
            20,
        )
        assert capture([page], {URL: seen("A", 10).capture}).unchanged == 1

    def test_the_original_can_be_in_the_same_batch(self) -> None:
        resolved, _ = resolve([seen("A", 1), seen("B", 5), revisit(URL, 3, OTHER), revisit(URL, 9)], {})
        assert [page.capture.document for page in resolved[2:]] == [DOCUMENTS["A"], DOCUMENTS["B"]]

    def test_the_original_can_be_a_revisit(self) -> None:
        resolved, _ = resolve([seen("A", 1), revisit(URL, 2, OTHER), revisit(OTHER, 3, OTHER)], {})
        assert resolved[-1].capture.document == DOCUMENTS["A"]

    def test_a_revisit_without_an_original_is_stored_and_reported(self) -> None:
        resolved, unresolved = resolve([revisit(OTHER, 20)], {})
        assert [r.reason for r in unresolved] == ["revisit_unresolved"]
        assert resolved[0].capture.document is None
        assert len(written(capture(resolved, {}))) == 1

    def test_a_revisit_of_a_picture_is_not_reported(self) -> None:
        resolved, unresolved = resolve([revisit(URL, 20)], {QUERY: [seen(None, 10).capture]})
        assert unresolved == []
        assert resolved[0].capture.document is None

    def test_redirects_and_errors_are_skipped(self) -> None:
        before = [seen(None, 15, status=301).capture, seen("A", 10).capture]
        assert resolve([revisit(URL, 20)], {QUERY: before})[0][0].capture.document == DOCUMENTS["A"]

    def test_a_revisit_supplied_again_gets_the_same_document(self) -> None:
        """The URL has another document by then."""
        first, _ = resolve([revisit(URL, 20)], {QUERY: [seen("A", 10).capture]})
        once = capture(first, {URL: seen("A", 10).capture})
        again, _ = resolve([seen("B", 30), revisit(URL, 20)], {QUERY: [first[0].capture]})
        twice = capture(again[1:], {URL: seen("B", 30).capture})
        assert twice.changes.puts_of(Family.CAPTURES) == once.changes.puts_of(Family.CAPTURES)

    def test_a_revisit_that_is_resolved_later_keeps_its_row_key(self) -> None:
        early, late = (
            resolve([revisit(URL, 20, OTHER)], before)[0] for before in ({}, {QUERY: [seen("A", 10).capture]})
        )
        rows = [set(capture(pages, {}).changes.puts_of(Family.CAPTURES)) for pages in (early, late)]
        assert rows[0] == rows[1]

    @pytest.mark.parametrize(("second", "document"), [(10, "A"), (20, "B"), (15, None)])
    def test_a_revisit_with_a_time_repeats_the_capture_of_that_second(
        self, second: int, document: str | None
    ) -> None:
        """If that capture was deleted or never supplied, no older one is used."""
        before = [seen("B", 20_400).capture, seen("A", 10_000).capture]
        page = msgspec.structs.replace(revisit(URL, 30_000), original_time=1_000 * second)
        query = OriginalQuery(URL, revisit_sweep=1, revisit_time=30_000, original_time_s=second)
        assert original_queries([page]) == [query]
        resolved, unresolved = resolve([page], {query: before})
        assert resolved[0].capture.document == (DOCUMENTS[document] if document else None)
        assert len(unresolved) == (document is None)

    @pytest.mark.parametrize(("status", "document"), [(200, "A"), (304, "A"), (301, None), (404, None)])
    def test_one_of_an_error_or_a_redirect_holds_nothing(self, status: int, document: str | None) -> None:
        page = msgspec.structs.replace(seen(None, 20, status=status), original_key=URL)
        resolved, unresolved = resolve([page], {QUERY: [seen("A", 10).capture]})
        assert resolved[0].capture.document == (DOCUMENTS[document] if document else None)
        assert not unresolved


def test_no_pages_give_no_changes() -> None:
    captured = capture([], {})
    assert len(captured.changes) == 0
    assert captured == CaptureResult(
        changes=captured.changes, sightings=[], captures=[], possibly_stored_keys=[], unchanged=0, stripped=0
    )
    assert isinstance(captured.changes, Changes)
    assert all(isinstance(sighting, Sighting) for sighting in captured.sightings)


DOCUMENT = b"d" * 16
POLICY = settings().policy
PAGE = Page(url="https://a.org/", time=5, body=b"<p>text", mime="text/html", origin=Origin("a.warc", 7))
PREVIOUS = Capture(
    key=PAGE.key,
    url=PAGE.url,
    sweep=1,
    time=2,
    status=200,
    document=DOCUMENT,
    raw_fingerprint=fingerprint_page(PAGE),
    extractor=1,
    links=b"list_id.",
)


def is_recognised(page: Page, previous: Capture | None = PREVIOUS) -> bool:
    return find_unchanged([page], {} if previous is None else {previous.key: previous}, 2, POLICY)[0] is not None


def test_an_unchanged_page_repeats_the_document() -> None:
    (unchanged,) = find_unchanged([PAGE], {PAGE.key: PREVIOUS}, 2, POLICY)
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
def test_a_changed_page_is_not_recognised(changed: dict[str, Any]) -> None:
    assert not is_recognised(msgspec.structs.replace(PAGE, **changed))


def test_a_page_without_stored_links_is_recognised_only_if_no_links_can_be_missing() -> None:
    previous = msgspec.structs.replace(PREVIOUS, links=b"")
    assert is_recognised(PAGE, previous), "a body without `href` has no links"
    linking = msgspec.structs.replace(PAGE, body=b"<p><a href=/x>x</a>")
    linking_previous = msgspec.structs.replace(previous, raw_fingerprint=fingerprint_page(linking))
    assert not is_recognised(linking, linking_previous)
    keep_none = settings({"policy": {"keep_links": "off"}}).policy
    assert find_unchanged([linking], {PAGE.key: linking_previous}, 2, keep_none) != [None]
    text = msgspec.structs.replace(PAGE, body=None, text="text")
    text_previous = msgspec.structs.replace(previous, raw_fingerprint=fingerprint_page(text))
    assert is_recognised(text, text_previous)
    with_links = msgspec.structs.replace(text, links=[SuppliedLink("/x")])
    assert not is_recognised(with_links, text_previous)
    assert fingerprint_page(with_links) != fingerprint_page(text)


def test_a_response_that_is_no_longer_a_page_is_not_recognised() -> None:
    script = msgspec.structs.replace(PAGE, mime="text/javascript")
    previous = msgspec.structs.replace(PREVIOUS, raw_fingerprint=fingerprint_page(script))
    accepting = settings({"policy": {"media_types": ["text/javascript"]}}).policy
    assert find_unchanged([script], {script.key: previous}, 2, accepting) != [None]
    assert find_unchanged([script], {script.key: previous}, 2, POLICY) == [None]


def test_the_previous_capture_must_have_a_document_and_a_successful_status() -> None:
    assert is_recognised(PAGE)
    assert not is_recognised(PAGE, None)
    assert not is_recognised(PAGE, msgspec.structs.replace(PREVIOUS, document=None))
    assert not is_recognised(PAGE, msgspec.structs.replace(PREVIOUS, status=404))


def test_unchanged_pages_are_in_the_order_of_the_pages() -> None:
    other = Page(url="https://a.org/new", time=5, text="new")
    results = find_unchanged([other, PAGE, other], {PAGE.key: PREVIOUS}, 2, POLICY)
    assert [unchanged is not None for unchanged in results] == [False, True, False]
