"""Tests of streams/query/group.py."""

from __future__ import annotations

import random
import time

import pytest

from state.store import Store
from state.view import View
from streams.query.group import ClassRoots, Group, group
from streams.urls import url_key
from tests.samples import page, settings, take, words

A, B = "https://a.example/", "https://b.example/docs/"
CLASSES = ClassRoots([(A, 1), (B, 1), (A + "blog/", 2), ("https://c.example/blog/", 2)])


@pytest.fixture
def view(tmp_path):
    rng = random.Random(1)
    texts = [" ".join(words(rng, 80)) for _ in range(4)]
    lines = [page(f"{root}{n}.html", text) for root in (A, B) for n, text in enumerate(texts)]
    lines += [page("https://x.example/copy", texts[0]), page("https://x.example/own", " ".join(words(rng, 80)))]
    with Store(tmp_path / "state", settings().store, create_if_missing=True) as store:
        take(store, tmp_path / "pages.jsonl", lines, "one")
        yield View(store)


def groups(view: View, *urls: str) -> list[tuple[str, list[str], list[str]]]:
    return [(g.url, g.collection, g.replica) for g in group(view, urls, CLASSES)]


def test_pages_of_a_collection_and_copies_follow_the_first_result(view):
    assert groups(
        view, A + "0.html", "https://x.example/own", B + "1.html", "https://x.example/copy", B + "0.html"
    ) == [
        (A + "0.html", [B + "1.html"], ["https://x.example/copy", B + "0.html"]),
        ("https://x.example/own", [], []),
    ]


def test_a_copy_of_a_folded_page_is_folded_too(view):
    assert groups(view, A + "1.html", B + "0.html", "https://x.example/copy") == [
        (A + "1.html", [B + "0.html"], ["https://x.example/copy"])
    ]


def test_the_longest_root_decides(view):
    assert groups(view, A + "1.html", A + "blog/1", "https://c.example/blog/?p=2", A + "blog") == [
        (A + "1.html", [A + "blog"], []),
        (A + "blog/1", ["https://c.example/blog/?p=2"], []),
    ]


def test_nested_roots_give_the_class_of_the_longest_one():
    rng = random.Random(3)
    prefixes = sorted({"https://n.example/" + "".join(rng.choices(("a/", "b/", "c.d/"), k=n % 6)) for n in range(40)})
    classes = {prefix: number for number, prefix in enumerate(prefixes) if number % 3}
    nested = ClassRoots(classes.items())
    for _ in range(300):
        url = "https://n.example/" + "".join(rng.choices(("a/", "b/", "c.d/", "b", "?a/b/"), k=rng.randrange(7)))
        containing = [prefix for prefix in classes if url.partition("?")[0].startswith(prefix)]
        expected = classes[max(containing, key=len)] if containing else None
        assert nested.class_of(url_key(url)) == expected


def test_unknown_repeated_and_invalid_urls_are_listed_once(view):
    urls = ["https://never.example/", "not a url", "https://never.example/", "not a url", "https://never.example/2"]
    assert [g.url for g in group(view, urls, CLASSES)] == [
        "https://never.example/",
        "not a url",
        "https://never.example/2",
    ]
    assert group(view, [], CLASSES) == []
    assert groups(view, "HTTP://A.example/0.html", A + "0.html") == [("HTTP://A.example/0.html", [], [A + "0.html"])]


def test_a_hundred_urls_take_a_few_milliseconds(view):
    """A generous bound for slow machines; bench.replicas.collections measures the time."""
    urls = [f"{root}{n}.html" for root in (A, B) for n in range(50)]
    results: list[Group] = []
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        results = group(view, urls, CLASSES)
        seconds.append(time.perf_counter() - start)
    assert len(results) == 1
    assert min(seconds) < 0.02
