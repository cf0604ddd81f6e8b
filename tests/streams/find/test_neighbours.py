"""Candidates that resemble the right page, or have a similar path, but are other pages."""

from __future__ import annotations

import pytest

from tests.streams.find.conftest import best

SITE = "https://site.example"
NAMES = ("aspen", "beech", "box", "holly", "pine", "lime")


@pytest.mark.parametrize("is_tree_alive", [True, False])
def test_a_frozen_copy_of_a_neighbour_is_not_the_new_home(view, finder, pages, text, is_tree_alive):
    """`x/a.html` was rewritten and moved; its neighbour `x/b.html`, which shares much of its text, was archived."""
    old, new, neighbour = f"{SITE}/x/a.html", f"{SITE}/y/alder.html", f"{SITE}/x/b.html"
    tree = {f"{SITE}/x/{name}.html": text(name) for name in NAMES}
    tree[neighbour] = text("alder", 24) + text("b", 12)
    frozen = {url.replace(SITE, f"{SITE}/v1"): page for url, page in tree.items()}
    view.add({**pages, **tree, old: text("alder", 32)})
    view.add({**pages, **(tree if is_tree_alive else {}), **frozen, new: text("alder", 16) + text("news", 20)})
    answer = finder(view).find(old)
    assert best(answer).url != neighbour.replace(SITE, f"{SITE}/v1")
    assert all(c.confidence < 0.5 for c in answer.candidates if "/v1/" in c.url)


def test_a_path_alone_moves_no_page(view, finder, pages, text):
    old, other = f"{SITE}/guide/setup/windows.html", f"{SITE}/guide/windows-setup.html"
    view.add({**pages, old: text("install")}).add({**pages, other: text("glass")})
    answer = finder(view).find(old)
    assert best(answer).url == other
    assert answer.status == "gone"
