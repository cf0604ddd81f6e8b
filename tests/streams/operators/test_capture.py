"""capture: what is written of a page, and which documents are sent on."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import Changes
from state.codecs import capture_row
from state.families import Family
from state.model import Capture
from streams.operators.capture import CaptureResult, capture, needs, resolve, revisit_instants
from streams.operators.messages import Sighting, SketchedPage

URL, OTHER = b"org,a)/x", b"org,a)/y"
DOCUMENTS = {name: name.encode() * 16 for name in "ABC"}


def seen(document: str | None, time: int, key: bytes = URL, sweep: int = 1, status: int = 200) -> SketchedPage:
    held = DOCUMENTS[document] if document else None
    url = "https://a.org/" + key[-1:].decode()
    return SketchedPage(
        capture=Capture(
            key=key, url=url, sweep=sweep, time=time, status=status, document=held, raw=held[:8] if held else b""
        )
    )


def revisit(of: bytes, time: int, key: bytes = URL, sweep: int = 1) -> SketchedPage:
    return msgspec.structs.replace(seen(None, time, key, sweep), revisit_of=of)


def last_of(captures: list[Capture]) -> dict[bytes, Capture]:
    return {held.key: held for held in sorted(captures, key=lambda c: (c.sweep, c.time, c.tie))}


def written(captured: CaptureResult) -> list[Capture]:
    return [capture_row.decode(*row) for row in sorted(captured.changes.family(Family.CAPTURES).items())]


def sent(captured: CaptureResult) -> list[tuple[bytes, bytes, int]]:
    return [(sighting.document, sighting.key, sighting.time) for sighting in captured.sightings]


def test_asks_for_each_url_once() -> None:
    pages = [seen("A", 1), seen("B", 2), seen("A", 3, OTHER), revisit(OTHER, 4)]
    assert needs(pages) == [URL, OTHER]
    assert revisit_instants(pages) == [(OTHER, 1, 4, -1)]


@pytest.mark.parametrize(
    ("history", "documents", "unchanged"),
    [
        ("A", "A", 0),
        ("AA", "A", 1),
        ("AB", "AB", 0),
        ("ABA", "ABA", 0),
        ("AABB", "AB", 2),
        ("A-A", "AA", 0),  # a URL that was gone in between holds it anew
        ("-", "", 0),
    ],
)
def test_sends_what_the_url_did_not_hold_last_time(history: str, documents: str, unchanged: int) -> None:
    """The same in one batch and in one batch a page."""
    pages = [seen(name.replace("-", "") or None, 10 + n) for n, name in enumerate(history)]
    together = capture(pages, {})
    assert [d for d, _, _ in sent(together)] == [DOCUMENTS[name] for name in documents]
    assert together.unchanged == unchanged
    assert len(written(together)) == len(together.captures) == len(history)
    apart: list[tuple[bytes, bytes, int]] = []
    held: list[Capture] = []
    for page in pages:
        one = capture([page], last_of(held))
        apart += sent(one)
        held += written(one)
    assert apart == sent(together)


@given(
    pages=st.lists(
        st.tuples(st.sampled_from([*"ABC", None]), st.integers(1, 2), st.sampled_from([URL, OTHER])),
        min_size=1,
        max_size=6,
    ),
    order=st.randoms(use_true_random=False),
)
def test_any_order_and_repeats_give_the_same_rows_and_first_sights(
    pages: list[tuple[str | None, int, bytes]], order: object
) -> None:
    made = [seen(name, 100 * sweep + n, key, sweep) for n, (name, sweep, key) in enumerate(pages)]
    expected = {(p.capture.document, p.capture.key): p.capture.time for p in reversed(made) if p.capture.document}
    for page in made:
        held = page.capture
        if held.document:
            place = (held.document, held.key)
            expected[place] = min(expected[place], held.time)
    shuffled = made + made[:2]
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    rows: dict[bytes, bytes] = {}
    found: dict[tuple[bytes, bytes], int] = {}
    for page in shuffled:
        captured = capture([page], last_of([capture_row.decode(*row) for row in rows.items()]))
        assert set(captured.repeated) >= {row for row in captured.changes.family(Family.CAPTURES) if row in rows}
        rows.update(captured.changes.family(Family.CAPTURES))
        for sighting in captured.sightings:
            place = (sighting.document, sighting.key)
            found[place] = min(sighting.time, found.get(place, sighting.time))
    assert rows == capture(made, {}).changes.family(Family.CAPTURES)
    assert found == expected


def test_what_came_back_within_one_instant_is_kept_apart() -> None:
    """http, its redirect and the page share a key and a second; the page is the last capture."""
    hop = SketchedPage(
        capture=Capture(
            key=URL,
            url="http://a.org/x",
            sweep=1,
            time=5,
            status=301,
            document=None,
            raw=b"",
            redirect="https://a.org/x",
        )
    )
    for order in permutations([hop, seen("A", 5), seen("B", 5)]):
        captured = capture(list(order), {})
        assert len(written(captured)) == 3
        assert last_of(written(captured))[URL].document
        assert {d for d, _, _ in sent(captured)} == {DOCUMENTS["A"], DOCUMENTS["B"]}


class TestRevisits:
    def test_one_takes_the_document_of_the_capture_that_it_repeats(self) -> None:
        before = {(URL, 1, 20, -1): [seen("A", 10).capture]}
        found = resolve([revisit(URL, 20)], before)
        assert found.unresolved == []
        (page,) = found.pages
        assert page.revisit_of is None
        assert (page.capture.document, page.capture.raw, page.capture.time) == (DOCUMENTS["A"], b"A" * 8, 20)
        assert capture([page], {URL: seen("A", 10).capture}).unchanged == 1

    def test_one_of_a_page_in_the_same_batch(self) -> None:
        found = resolve([seen("A", 1), seen("B", 5), revisit(URL, 3, OTHER), revisit(URL, 9)], {})
        assert [page.capture.document for page in found.pages[2:]] == [DOCUMENTS["A"], DOCUMENTS["B"]]

    def test_one_of_a_revisit(self) -> None:
        found = resolve([seen("A", 1), revisit(URL, 2, OTHER), revisit(OTHER, 3, OTHER)], {})
        assert found.pages[-1].capture.document == DOCUMENTS["A"]

    def test_one_of_nothing_known_is_kept_and_reported(self) -> None:
        found = resolve([revisit(OTHER, 20)], {})
        assert [r.reason for r in found.unresolved] == ["revisit_unresolved"]
        assert found.pages[0].capture.document is None
        assert len(written(capture(found.pages, {}))) == 1

    def test_one_of_a_picture_is_no_loss(self) -> None:
        found = resolve([revisit(URL, 20)], {(URL, 1, 20, -1): [seen(None, 10).capture]})
        assert (found.unresolved, found.pages[0].capture.document) == ([], None)

    def test_one_looks_past_a_redirect_or_an_error(self) -> None:
        before = [seen(None, 15, status=301).capture, seen("A", 10).capture]
        assert resolve([revisit(URL, 20)], {(URL, 1, 20, -1): before}).pages[0].capture.document == DOCUMENTS["A"]

    def test_one_handed_in_again_later_finds_the_same(self) -> None:
        """What the URL holds now is not what it held then."""
        first = resolve([revisit(URL, 20)], {(URL, 1, 20, -1): [seen("A", 10).capture]})
        once = capture(first.pages, {URL: seen("A", 10).capture})
        again = resolve([seen("B", 30), revisit(URL, 20)], {(URL, 1, 20, -1): [first.pages[0].capture]})
        twice = capture(again.pages[1:], {URL: seen("B", 30).capture})
        assert twice.changes.family(Family.CAPTURES) == once.changes.family(Family.CAPTURES)

    def test_one_that_was_not_known_at_first_keeps_its_row(self) -> None:
        early, late = (
            resolve([revisit(URL, 20, OTHER)], before).pages
            for before in ({}, {(URL, 1, 20, -1): [seen("A", 10).capture]})
        )
        rows = [set(capture(pages, {}).changes.family(Family.CAPTURES)) for pages in (early, late)]
        assert rows[0] == rows[1]


def test_nothing_in_nothing_out() -> None:
    captured = capture([], {})
    assert len(captured.changes) == 0
    assert captured == CaptureResult(changes=captured.changes, sightings=[], captures=[], repeated=[], unchanged=0)
    assert isinstance(captured.changes, Changes)
    assert all(isinstance(sighting, Sighting) for sighting in captured.sightings)

    @pytest.mark.parametrize(("second", "document"), [(10, "A"), (20, "B"), (15, None)])
    def test_one_that_says_when_repeats_what_was_held_then(self, second: int, document: str | None) -> None:
        """Not an older version, where that one was forgotten or never came."""
        before = [seen("B", 20_400).capture, seen("A", 10_000).capture]
        page = msgspec.structs.replace(revisit(URL, 30_000), revisit_time=1_000 * second)
        assert revisit_instants([page]) == [(URL, 1, 30_000, second)]
        found = resolve([page], {(URL, 1, 30_000, second): before})
        assert found.pages[0].capture.document == (DOCUMENTS[document] if document else None)
        assert len(found.unresolved) == (document is None)

    @pytest.mark.parametrize(("status", "document"), [(200, "A"), (304, "A"), (301, None), (404, None)])
    def test_one_of_an_error_or_a_redirect_holds_nothing(self, status: int, document: str | None) -> None:
        page = msgspec.structs.replace(seen(None, 20, status=status), revisit_of=URL)
        found = resolve([page], {(URL, 1, 20, -1): [seen("A", 10).capture]})
        assert found.pages[0].capture.document == (DOCUMENTS[document] if document else None)
        assert not found.unresolved
