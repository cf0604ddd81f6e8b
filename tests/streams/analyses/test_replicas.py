"""Replicated directories are found with their boundaries, on one host and across hosts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from streams.analyses.replicas import Replica, compute
from tests.analysis_data import Page, open_data_set, page, prose, write_data_set
from tests.samples import settings

FOLDERS = ("", "", "api/", "api/types/", "guide/")


def tree(root: str, name: str, pages: int = 24, *, index: bool = False) -> list[Page]:
    """Return the pages of a tree in several folders. Trees with the same name have the same pages."""
    rng = random.Random(name)
    paths = [f"{rng.choice(FOLDERS)}page{number}.html" for number in range(pages)]
    if index:
        paths += ["", "api/", "guide/"]
    return [page(root + path, prose(name, path)) for path in paths]


def own_pages(host: str, pages: int = 16) -> list[Page]:
    """Return pages of a host that are not replicated."""
    return [page(f"{host}own/text{number}.html", prose(host, number)) for number in range(pages)]


def without(pages: Iterable[Page], share: float, seed: object) -> list[Page]:
    """Return the pages without a random share of them."""
    rng = random.Random(repr(seed))
    return [page for page in pages if rng.random() >= share]


def replicas(
    folder: Path,
    pages: list[Page],
    *,
    method: str = "names",
    counters: Counter[str] | None = None,
    parts: int = 1,
    seed: int = 0,
    **limits: int,
) -> list[Replica]:
    analyses = settings({"analyses": limits}).analyses
    write_data_set(folder, pages, parts=parts, seed=seed)
    with open_data_set(folder) as engine:
        return compute(engine, analyses, method, counters)


def prefixes(results: list[Replica]) -> list[tuple[str, str]]:
    return [(replica.a, replica.b) for replica in results]


@pytest.fixture
def grafted() -> list[Page]:
    return [
        *tree("https://a.example/lib/manual/", "manual"),
        *own_pages("https://a.example/"),
        *tree("https://b.example/vendor/docs/manual/", "manual"),
        *own_pages("https://b.example/vendor/"),
    ]


def test_a_grafted_tree_is_reported_once_with_its_boundary(tmp_path: Path, grafted: list[Page]) -> None:
    replica = Replica(
        a="https://a.example/lib/",
        b="https://b.example/vendor/docs/",
        pages=(24, 24),
        common=24,
        containment=(1.0, 1.0),
    )
    assert replicas(tmp_path, grafted) == [replica], "the parents contain nothing else, so they are replicas too"


def test_pages_beside_the_copy_move_the_boundary_down(tmp_path: Path, grafted: list[Page]) -> None:
    pages = [*grafted, *own_pages("https://a.example/lib/"), *own_pages("https://b.example/vendor/docs/")]
    assert prefixes(replicas(tmp_path, pages)) == [
        ("https://a.example/lib/manual/", "https://b.example/vendor/docs/manual/")
    ]


@pytest.mark.parametrize("missing", [0.1, 0.3, 0.5])
def test_a_tree_is_found_though_pages_are_missing_from_both_crawls(tmp_path: Path, missing: float) -> None:
    pages = [
        *without(tree("https://a.example/x/", "manual", 80), missing, "a"),
        *own_pages("https://a.example/"),
        *without(tree("https://b.example/deep/y/", "manual", 80), missing, "b"),
        *own_pages("https://b.example/"),
        *own_pages("https://b.example/deep/"),
    ]
    (replica,) = replicas(tmp_path, pages)
    assert (replica.a, replica.b) == ("https://a.example/x/", "https://b.example/deep/y/")
    assert replica.common < min(replica.pages) < 80 or missing < 0.2
    assert replica.containment == tuple(round(replica.common / pages, 4) for pages in replica.pages)


def test_renamed_roots_are_found_on_one_host(tmp_path: Path) -> None:
    pages = [
        *tree("https://a.example/handbook/", "manual"),
        *tree("https://a.example/archive/2019/old-handbook/", "manual"),
        *own_pages("https://a.example/"),
    ]
    assert prefixes(replicas(tmp_path, pages)) == [
        ("https://a.example/archive/2019/old-handbook/", "https://a.example/handbook/"),
    ]


def test_copies_of_a_directory_inside_it_are_not_part_of_it(tmp_path: Path) -> None:
    roots = ("https://a.example/docs/", "https://a.example/docs/1.0/", "https://a.example/docs/2.0/")
    pages = [capture for root in roots for capture in tree(root, "manual")] + own_pages("https://a.example/")
    results = replicas(tmp_path, pages)
    assert prefixes(results) == [(roots[0], roots[1]), (roots[0], roots[2]), (roots[1], roots[2])]
    assert {replica.pages for replica in results} == {(24, 24)}


def test_one_template_with_different_content_is_not_a_replica(tmp_path: Path) -> None:
    menu = prose("menu", words=25)
    pages = [
        page(f"https://{host}.example/news/{path}.html", f"{menu} {prose(host, path)} {menu}")
        for host in "ab"
        for path in range(30)
    ]
    assert replicas(tmp_path, pages) == []


def test_a_forum_of_nearly_identical_pages_is_not_a_replica(tmp_path: Path) -> None:
    text = prose("this thread is empty", words=200)
    pages = [
        page(f"https://{host}.example/{board}/thread{number}.html", f"{text} {board} {number}")
        for host in "ab"
        for board in ("sport", "music")
        for number in range(25)
    ]
    assert replicas(tmp_path, pages + own_pages("https://a.example/") + own_pages("https://b.example/")) == []


def test_soft_404s_are_missing_pages(tmp_path: Path) -> None:
    copies = tree("https://b.example/copy/", "manual", 40)
    gone = {capture.url for capture in random.Random(1).sample(copies, 14)}
    pages = [
        *tree("https://a.example/manual/", "manual", 40),
        *own_pages("https://a.example/"),
        *(page(copy.url, "sorry, this page was not found") if copy.url in gone else copy for copy in copies),
        *own_pages("https://b.example/"),
    ]
    (replica,) = replicas(tmp_path, pages)
    assert (replica.a, replica.b) == ("https://a.example/manual/", "https://b.example/copy/")
    assert (replica.pages, replica.common) == ((40, 40), 26)


def test_directories_that_serve_only_soft_404s_are_not_replicas(tmp_path: Path) -> None:
    error = "sorry, this page was not found"
    pages = [page(f"https://{host}.example/shop/item{number}.html", error) for host in "ab" for number in range(20)]
    assert replicas(tmp_path, pages + own_pages("https://a.example/") + own_pages("https://b.example/")) == []


def test_a_site_with_hundreds_of_copies_forms_a_chain(tmp_path: Path) -> None:
    copies, neighbours = 120, 4
    pages = [
        page(f"https://host{number}.example/docs/page{path}.html", prose(path))
        for number in range(copies)
        for path in range(5)
    ]
    counters = Counter[str]()
    results = replicas(tmp_path, pages, counters=counters, replica_neighbours_max=neighbours)
    assert len(results) <= copies * neighbours
    assert counters == {"replica_neighbours_max": 5, "replica_depth_max": 0}
    reached = {"https://host0.example/"}
    for _ in range(copies):
        reached.update(url for pair in prefixes(results) if reached & set(pair) for url in pair)
    assert len(reached) == copies


def test_index_files_and_directories_are_the_same_page(tmp_path: Path) -> None:
    parts = ("", "install/", "usage/", "usage/files/", "faq/", "api/")
    pages = [
        *(page(f"https://a.example/x/{part}index.html", prose(part)) for part in parts),
        *(page(f"http://b.example/y/{part}", prose(part)) for part in parts),
        *own_pages("https://a.example/"),
        *own_pages("http://b.example/"),
    ]
    (replica,) = replicas(tmp_path, pages)
    assert (replica.a, replica.b, replica.common) == ("http://b.example/y/", "https://a.example/x/", 6)


def test_hostile_urls_do_no_harm(tmp_path: Path, grafted: list[Page]) -> None:
    hostile = [
        "https://a.example/" + "a/" * 5_000,
        "https://a.example/lib//////",
        "https://a.example/lib/../../../../x.html",
        "https://a.example/lib/%2e%2e/%2F%2F/x.html",
        "https://a.example/lib/?next=/a/b/c/index.html",
        "https://a.example/lib/'; DROP TABLE pages; --/x.html",
        "https://a.example/lib/%00/%FF.html",
        "https://[2001:db8::1]:8080/",
        *("https://a.example/" + "trap/" * depth + "x.html" for depth in range(1, 30)),
    ]
    pages = grafted + [page(url, prose("hostile", url.count("/") if "trap" not in url else 0)) for url in hostile]
    counters = Counter[str]()
    results = replicas(tmp_path, pages, counters=counters)
    assert counters["replica_depth_max"] == 1
    assert any(replica.common == 24 and replica.b.startswith("https://b.example/vendor/docs/") for replica in results)
    assert all("trap" not in replica.a + replica.b for replica in results)


def test_the_result_does_not_depend_on_the_order_of_rows_and_files(tmp_path: Path, grafted: list[Page]) -> None:
    pages = [*grafted, *tree("https://c.example/handbook/", "manual", 30), *tree("https://a.example/own/", "other")]
    expected = replicas(tmp_path / "0", pages)
    assert len(expected) >= 2
    for seed in range(1, 4):
        assert replicas(tmp_path / str(seed), pages, parts=seed + 1, seed=seed) == expected


def test_the_published_method_needs_index_pages(tmp_path: Path) -> None:
    def pages(index: bool) -> list[Page]:
        return [
            *tree("https://a.example/x/", "manual", index=index),
            *own_pages("https://a.example/"),
            *tree("https://b.example/y/", "manual", index=index),
            *own_pages("https://b.example/"),
        ]

    pair = ("https://a.example/x/", "https://b.example/y/")
    assert prefixes(replicas(tmp_path / "with", pages(True), method="zhang")) == [pair]
    assert prefixes(replicas(tmp_path / "without", pages(False), method="zhang")) == []
    assert prefixes(replicas(tmp_path / "ours", pages(False))) == [pair]


def test_a_small_tree_is_found_if_three_common_pages_remain(tmp_path: Path) -> None:
    pages = [
        *(page(f"https://a.example/x/{number}.html", prose(number)) for number in (0, 1, 2, 3, 4)),
        *(page(f"https://b.example/y/{number}.html", prose(number)) for number in (2, 3, 4, *range(5, 14))),
        *own_pages("https://a.example/"),
        *own_pages("https://b.example/"),
    ]
    (replica,) = replicas(tmp_path, pages)
    assert (replica.pages, replica.common) == ((5, 12), 3)
