"""Tests of streams/analyses/collections/."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from streams.analyses.collections.class_plot import plot_classes
from streams.analyses.collections.collection_results import ClassSize, Collection, Result, Rule
from streams.analyses.collections.compute_collections import compute
from tests.analysis_data import Page, open_data_set, page, prose, write_data_set
from tests.streams.analyses.sites import manual, unrelated

A, B, C = "https://a.example/", "https://b.example/docs/", "http://mirror.example:8080/pub/m/"


def collections_of(
    folder: Path, pages: Iterable[Page], *, rule: Rule = "regions", clusters_min: int = 10, **options: Any
) -> Result:
    with open_data_set(write_data_set(folder, list(pages), **options)) as engine:
        return compute(engine, rule=rule, clusters_min=clusters_min, urls_max=3)


def roots(collections: Sequence[Collection]) -> list[str]:
    return [collection.root for collection in collections]


def test_copies_on_several_hosts_form_a_class_with_the_most_complete_copy_as_representative(tmp_path):
    pages = [*manual(A, without=[3]), *manual(B, edition="2nd"), *manual(C, without=[4, 5]), *unrelated(A + "blog/")]
    result = collections_of(tmp_path, pages)
    assert [(c.class_, c.root, c.pages, c.representative, c.reason) for c in result.collections] == [
        (1, B, 17, True, "most_clusters"),
        (1, A, 16, False, None),
        (1, C, 15, False, None),
    ]
    assert [c.host for c in result.collections] == ["b.example", "a.example", "mirror.example:8080"]
    assert result.collections[2].urls == (C + "0.html", C + "1.html", C + "10.html")
    assert [(size.cardinality, size.size) for size in result.classes] == [(3, 17)]
    assert result.links.total > result.links.resolved > 0


def test_copies_side_by_side_on_one_host_are_separate_collections(tmp_path):
    versions = [f"{A}docs/{version}/" for version in ("1.0", "1.1", "latest")]
    pages = [p for version in versions for p in manual(version, edition=version[-2])]
    switcher = [
        page(p.url, p.text, links=[*p.links, *(v + p.url.rpartition("/")[2] for v in versions)]) for p in pages
    ]
    result = collections_of(tmp_path, [*switcher, page(A + "docs/", prose("start"), links=versions)])
    assert sorted(roots(result.collections)) == versions
    assert {c.class_ for c in result.collections} == {1}


def test_the_representative_is_the_copy_with_links_from_most_hosts_if_all_are_complete(tmp_path):
    pages = [*manual(A), *manual(B), page("https://c.example/", prose("c"), links=[B + "3.html"])]
    result = collections_of(tmp_path, pages)
    assert [(c.root, c.linking_hosts, c.reason) for c in result.collections] == [
        (B, 1, "most_linking_hosts"),
        (A, 0, None),
    ]


def test_hundreds_of_copies_form_one_class(tmp_path):
    pages = [p for number in range(120) for p in manual(f"https://host{number}.example/", pages=10)]
    result = collections_of(tmp_path, pages)
    assert [(size.cardinality, size.size) for size in result.classes] == [(120, 11)]


@pytest.mark.parametrize("rule", ["regions", "paper", "extended"])
def test_the_order_of_rows_and_the_number_of_files_do_not_matter(tmp_path, rule):
    pages = [
        *manual(A, without=[3]),
        *manual(B),
        *manual(C),
        *manual(A + "x/", name="other"),
        *manual(B + "x/", name="other"),
    ]
    first = collections_of(tmp_path / "1", pages, rule=rule)
    assert first.collections
    for seed in (1, 2):
        again = collections_of(tmp_path / f"{seed + 1}", reversed(pages), rule=rule, parts=seed + 2, seed=seed)
        assert again == first


def test_pages_that_are_not_replicated_do_not_form_collections(tmp_path):
    slides = [
        page(
            f"{host}slide{n}.html", prose(host, "title", words=50) + f" {n} of 30", links=[f"{host}slide{n + 1}.html"]
        )
        for host in (A, B)
        for n in range(30)
    ]
    forum = [
        page(
            f"{A}t/{n}{suffix}",
            prose("thread", n),
            links=[f"{A}t/{(n + k) % 30}{s}" for k in (1, 2) for s in ("", "?print=1")],
        )
        for n in range(30)
        for suffix in ("", "?print=1")
    ]
    template = [
        page(
            f"{host}{n}",
            prose("menu", words=20) + prose(host, n),
            links=[f"{host}{(n + k) % 30}" for k in range(1, 9)],
        )
        for host in ("https://x.example/", "https://y.example/")
        for n in range(30)
    ]
    assert collections_of(tmp_path, [*slides, *forum, *template]).collections == ()


def test_error_pages_with_status_200_do_not_belong_to_a_collection(tmp_path):
    soft_404 = [page(f"{A}old/{n}.html", "this page does not exist " * 4, links=[A]) for n in range(12)]
    copies = [page(p.url, p.text, links=[*p.links, *(s.url for s in soft_404)]) for p in manual(A)]
    result = collections_of(tmp_path, [*copies, *soft_404, *manual(B)])
    assert [(c.root, c.pages) for c in result.collections] == [(A, 17), (B, 17)]


def test_the_papers_rule_needs_equal_numbers_of_pages_and_links(tmp_path):
    complete = [*manual(A), *manual(B)]
    result = collections_of(tmp_path / "1", complete, rule="paper")
    assert sorted(roots(result.collections)) == [A, B]
    assert [(size.cardinality, size.size) for size in result.classes] == [(2, 17)]
    # A third copy without every other page breaks the equality of most pairs of clusters.
    partial = [*complete, *manual(C, without=range(0, 16, 2))]
    sizes = [collections_of(tmp_path / rule, partial, rule=rule).classes for rule in ("paper", "extended")]
    assert max(size.size for size in sizes[0]) < 17
    assert max(size.size for size in sizes[1]) == 17


def test_hostile_urls_and_pages_without_text_do_no_harm(tmp_path):
    paths = ["a" * 5_000, "/" * 300, "../../x", "%2f%2F/..%2f", "?a=/b/c/", "%zz/%", "x;y=1//", "'\"\\/"]
    odd = [page(A + path, prose(n), links=[A + other for other in paths]) for n, path in enumerate(paths)]
    empty = [page(f"{A}e/{n}", status=500, links=[A]) for n in range(5)]
    result = collections_of(tmp_path, [*odd, *empty, *manual(A + "m/"), *manual(B)])
    assert sorted(roots(result.collections)) == [A + "m/", B]


def test_a_data_set_without_pages_has_no_collections(tmp_path):
    result = collections_of(tmp_path, [page(A, "")])
    assert result == Result(collections=(), classes=(), links=result.links)


def test_similar_pages_of_two_large_manuals_are_not_a_collection(tmp_path):
    """Sixteen pages of each manual are similar, and link to each other and to forty other pages."""
    pages = []
    for host in (A, B):
        own = [page(f"{host}own/{n}.html", prose(host, n)) for n in range(40)]
        common = manual(host, name="common")
        pages += [*own, *(page(p.url, p.text, links=[*p.links, *(other.url for other in own)]) for p in common)]
    assert roots(collections_of(tmp_path / "1", [*manual(A), *manual(B)]).collections) == [A, B]
    assert collections_of(tmp_path / "2", pages).collections == ()


def test_pages_that_a_copy_links_to_are_attached_if_another_copy_has_them_too(tmp_path):
    """The sources of a manual are beside it, so no link to them is straight, and ten lists are nearly the same."""
    pages = []
    for host in (A, B):
        for p in manual(host + "doc/"):
            name = p.url.rpartition("/")[2]
            extra = [f"{host}source/{name}", f"{host}doc/use/{name}"]
            pages += [page(p.url, p.text, links=[*p.links, *extra]), page(extra[0], prose("source", name))]
            pages.append(page(extra[1], prose("uses", words=80) + f" {name}"))
        pages += [page(f"{host}doc/news.html", prose(host)), *manual(f"{host}doc/inner/", name="inner")]
    result = collections_of(tmp_path, pages)
    assert [(c.root, c.pages) for c in result.collections if c.class_ == 1] == [(A + "doc/", 34), (B + "doc/", 34)]
    assert [(c.root, c.pages) for c in result.collections if c.class_ == 2] == [
        (A + "doc/inner/", 17),
        (B + "doc/inner/", 17),
    ]


@pytest.mark.parametrize("classes", [(), (ClassSize(cardinality=2, size=10), ClassSize(cardinality=2, size=10))])
def test_classes_are_plotted(tmp_path, classes):
    path = tmp_path / "classes.png"
    plot_classes(classes, path)
    assert path.read_bytes().startswith(b"\x89PNG")
