"""Clusters of the ingest, clusters by another policy, and their members."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from state.changes import Changes
from state.families import Family
from state.store import Store
from state.view import View
from streams import query
from streams.errors import InputError
from streams.query import Cluster, cluster, clusters, clusters_by_policy, find_similar, members, resolve
from streams.urls import url_key
from tests.samples import NOW, page, take
from tests.streams.query.conftest import (
    IDS,
    SETTINGS,
    SKETCHER,
    URL,
    containment,
    ids,
    names,
    resemblance,
    start_cancelling,
    text_of,
)


def test_a_cluster_has_documents_urls_and_counts(view: View) -> None:
    results = query.cluster(view, IDS["far"], 100)
    assert ids(results) == names("base", "near", "far")
    assert results.cluster == min(names("base", "near", "far"))
    assert results.urls == sorted(URL.format(name) for name in ("base", "near", "far"))
    assert (results.document_count, results.url_count) == (3, 3)
    shown = query.cluster(view, IDS["far"], 2)
    assert (len(shown.documents), len(shown.urls), shown.document_count, shown.url_count) == (2, 2, 3, 3)
    assert ids(query.cluster(view, IDS["part"], 100)) == names("part")


def test_the_largest_clusters_come_first(view: View) -> None:
    results = list(clusters(view, min_size=1))
    assert sorted(sorted(ids(c)) for c in results[:2]) == sorted(
        sorted(group) for group in (names("base", "near", "far"), names("lone"))
    )
    assert ids(results[2]) == names("part")
    assert len(list(clusters(view, min_size=2))) == 2
    assert list(clusters(view, min_size=4)) == []
    sizes = [max(c.document_count, c.url_count) for c in results]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "listed",
    [clusters, partial(clusters_by_policy, threshold=0.5, containment=False, sweep=None)],
    ids=["of the ingest", "by a policy"],
)
def test_the_size_of_a_cluster_is_the_larger_of_its_two_counts(
    spread: View, listed: Callable[..., Iterator[Cluster]]
) -> None:
    results = list(listed(spread, min_size=1))
    assert [(c.document_count, c.url_count) for c in results] == [(1, 5), (2, 4), (2, 1)]
    assert ids(results[1]) == names("base", "near")
    assert [len(c.urls) for c in results] == [5, 4, 1]
    assert [list(listed(spread, min_size=size)) for size in (2, 3, 5, 6)] == [results, results[:2], results[:1], []]


def test_http_and_https_are_one_url_as_last_written(spread: View) -> None:
    results = query.cluster(spread, resolve(spread, "https://b.org/x"), 100)
    assert (results.document_count, results.url_count, results.urls) == (2, 1, ["https://b.org/x"])


def test_a_limit_bounds_the_lists_but_not_the_counts(spread: View) -> None:
    results = query.cluster(spread, IDS["lone"], 2)
    assert (len(results.urls), results.url_count) == (2, 5)
    of_two = query.cluster_by_policy(spread, IDS["lone"], threshold=0.5, containment=False, sweep=2, limit=1)
    assert of_two == Cluster(
        cluster=IDS["lone"].hex(),
        documents=[IDS["lone"].hex()],
        urls=[URL.format("c")],
        document_count=1,
        url_count=2,
    )
    assert query.cluster_by_policy(spread, IDS["base"], threshold=0.5, containment=False, sweep=2, limit=1) is None


def test_members_listed_under_a_former_root_make_no_cluster(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as opened:
        pages = [page(URL.format(name), text_of(name), NOW) for name in ("base", "near", "far")]
        take(opened, tmp_path / "1.jsonl", pages, "one", SETTINGS)
        view = View(opened)
        (before,) = clusters(view)
        root, node, other = map(bytes.fromhex, before.documents)
        changes = Changes()
        changes.put(Family.MEMBERS, node + other)
        opened.write(changes)
        assert view.root(node) == root
        assert list(clusters(view)) == [before]


@pytest.mark.parametrize(
    ("threshold", "with_containment", "groups"),
    [
        (0.5, False, [("base", "near", "far")]),
        (0.74, False, [("base", "near")]),
        (0.95, False, []),
        (0.74, True, [("base", "near", "far")]),
    ],
)
def test_other_policies_use_the_same_edges(
    view: View, threshold: float, with_containment: bool, groups: list[tuple[str, ...]]
) -> None:
    results = clusters_by_policy(view, threshold=threshold, containment=with_containment, sweep=None, min_size=2)
    assert resemblance("base", "near") > 0.74 > resemblance("near", "far") > 0.5
    assert containment("near", "far") > 0.74
    assert sorted(sorted(ids(c)) for c in results if c.document_count > 1) == sorted(
        sorted(names(*g)) for g in groups
    )


def test_the_policy_of_the_ingest_gives_the_same_clusters(view: View) -> None:
    again = clusters_by_policy(view, threshold=0.5, containment=False, sweep=None, min_size=1)
    assert {frozenset(c.documents): tuple(c.urls) for c in again} == {
        frozenset(c.documents): tuple(c.urls) for c in clusters(view, min_size=1)
    }


def test_clusters_of_one_sweep(view: View) -> None:
    results = list(clusters_by_policy(view, threshold=0.5, containment=False, sweep=2, min_size=1))
    assert {frozenset(c.documents): c.urls for c in results} == {
        frozenset(names("lone")): [URL.format("base")],
        frozenset(names("far")): [URL.format("far")],
    }


def test_no_query_shows_a_sweep_that_is_being_cancelled(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", [page(URL.format("base"), text_of("base"), NOW)], "one", SETTINGS)
        later = [
            page(URL.format("near"), text_of("near"), NOW + 1),
            page(URL.format("lone"), text_of("lone"), NOW + 2),
        ]
        take(store, tmp_path / "2.jsonl", later, "two", SETTINGS)
        before = [msgspec.structs.asdict(c) for c in clusters(View(store), min_size=1)]
        assert len(before) == 2
        start_cancelling(store, "two")
        view = View(store)
        assert [m.document for m in find_similar(view, SETTINGS, SKETCHER.sketch(text_of("base")))] == [
            IDS["base"].hex()
        ]
        assert [(ids(c), c.document_count, c.urls) for c in clusters(view, min_size=1)] == [
            (names("base"), 1, [URL.format("base")])
        ]
        by_policy = clusters_by_policy(view, threshold=0.5, containment=False, sweep=None, min_size=1)
        assert [(ids(c), c.document_count) for c in by_policy] == [(names("base"), 1)]
        assert ids(query.cluster(view, IDS["base"], 100)) == names("base")
        assert query.captures(view, URL.format("near")) == []
        with pytest.raises(InputError):
            resolve(view, URL.format("near"))
        assert view.captures(url_key(URL.format("near"))) == []


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
