"""Values from the broker that can be decoded but are invalid are rejected before they reach the state."""

from __future__ import annotations

import msgspec
import pytest

from state.codecs import link_chunk, link_list
from state.model import Capture, Link
from state.scheme import Scheme
from streams.kafka.wire.validation import find_problem
from streams.operators.messages import SketchedPage
from streams.sketch.links import LinkPayload

CHUNK = link_chunk.encode([Link(target=b"org,example)/a", anchor="A")])
LIST_ID = link_list.compute_list_id([link_chunk.compute_chunk_id(CHUNK)])
CAPTURE = Capture(
    key=b"org,example)/",
    url="https://example.org/",
    sweep=1,
    time=1,
    status=200,
    document=None,
    raw_fingerprint=b"",
    links=LIST_ID,
)
PAGE = SketchedPage(capture=CAPTURE, links=LinkPayload([CHUNK]))


def test_a_valid_page_with_links_has_no_problem() -> None:
    assert find_problem(PAGE, Scheme()) == ""


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (msgspec.structs.replace(PAGE, links=LinkPayload([CHUNK[:-1]])), "invalid link chunk"),
        (msgspec.structs.replace(PAGE, links=LinkPayload([b"\x07"])), "invalid link chunk"),
        (msgspec.structs.replace(PAGE, links=LinkPayload([CHUNK, CHUNK])), "refers to a different list of links"),
        (
            msgspec.structs.replace(PAGE, capture=msgspec.structs.replace(CAPTURE, links=b"short")),
            "the capture cannot be encoded",
        ),
    ],
    ids=["cut", "version", "list", "length"],
)
def test_invalid_links_are_reported(page: SketchedPage, expected: str) -> None:
    assert expected in find_problem(page, Scheme())
