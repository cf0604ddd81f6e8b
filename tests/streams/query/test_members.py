"""The members of a cluster, compared with one of its documents."""

from __future__ import annotations

import pytest

from state.view import View
from streams.query import cluster, members
from tests.samples import NOW
from tests.streams.query.conftest import IDS, URL, containment, resemblance


def test_members_are_compared_with_the_document_of_the_query(view: View) -> None:
    results = members(view, cluster(view, IDS["far"], 100), IDS["far"], 5)
    assert [member.document for member in results] == [IDS[name].hex() for name in ("far", "near", "base")]
    assert [member.resemblance for member in results] == pytest.approx(
        [resemblance("far", name) for name in ("far", "near", "base")]
    )
    assert results[1].containment == pytest.approx(containment("far", "near"))
    assert results[1].contained == pytest.approx(containment("near", "far"))


def test_a_member_has_its_title_urls_and_times(view: View) -> None:
    first = members(view, cluster(view, IDS["far"], 100), IDS["far"], 5)[0]
    assert first.title == "Far"
    assert first.urls == [URL.format("far")]
    assert (first.first_seen, first.last_seen) == (NOW + 2, NOW + 102)


def test_a_document_that_is_not_stored_has_no_members(view: View) -> None:
    assert members(view, cluster(view, IDS["far"], 100), b"\0" * 16, 5) == []
