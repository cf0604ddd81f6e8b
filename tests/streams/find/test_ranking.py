"""Copied trees, translations and variants of a URL among the candidates."""

from __future__ import annotations

from tests.streams.find.conftest import best

SITE = "https://site.example"


def test_a_copy_that_coexisted_is_not_a_move(view, finder, pages, text):
    old, frozen, new = f"{SITE}/yew.html", f"{SITE}/v1/yew.html", f"{SITE}/wood/yew.html"
    view.add({**pages, old: text("yew"), frozen: text("yew")})
    view.add({**pages, frozen: text("yew"), new: text("yew", 30) + text("bark", 15)})
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert [copy.url for copy in best(answer).copies] == [frozen]


def test_a_copy_of_the_whole_tree_is_not_a_move(view, finder, pages, text):
    old, new = f"{SITE}/trees/yew.html", f"{SITE}/wood/yew-tree.html"
    before = {**pages, old: text("yew")}
    frozen = {url.replace(SITE, f"{SITE}/v1"): page for url, page in before.items()}
    view.add(before).add({**pages, **frozen, new: text("yew", 30) + text("bark", 15)})
    answer = finder(view).find(old)
    assert best(answer).url == new


def test_a_page_that_became_a_folder_is_found_at_its_place(view, finder, pages, text):
    """The part that received most of its text does not win."""
    old, folder = f"{SITE}/guide/faq.html", f"{SITE}/guide/faq"
    parts = {name: text(name, size) for name, size in (("install", 20), ("usage", 14), ("errors", 14))}
    start = "Questions that are asked again and again, by theme. Look at install, at usage, and at errors."
    view.add({**pages, old: start + " ".join(parts.values())})
    view.add({**pages, f"{folder}/index.html": start, **{f"{folder}/{name}.html": parts[name] for name in parts}})
    assert best(finder(view).find(old)).url == f"{folder}/index.html"


def test_the_containment_of_a_short_page_is_shrunk(view_without_texts, finder, text):
    """Without texts, the estimate of a containment may be 1 by chance, with an error as large."""
    short = {f"{SITE}/manual/cmd{n}.html": text(f"manual{n}", 3) for n in range(40)}
    long = {f"{SITE}/manual/": " ".join(text(f"subject{n}", 30) for n in range(60))}
    view_without_texts.add({**short, f"{SITE}/other.html": text("other")}).add(
        {f"{SITE}/other.html": text("other"), **long}
    )
    search = finder(view_without_texts)
    for url in short:
        assert all(candidate.containment < 0.1 for candidate in search.find(url).candidates)


def test_old_versions_below_the_root_are_not_neighbours(view, finder, pages, text):
    """Only pages of the same folder show whether a tree was copied, however many versions are below it."""
    names = ["aspen", "beech", "box", "holly", "oak", "pine"]
    here = {f"{SITE}/{name}.html": text(name) for name in names}
    others = {f"{SITE}/v{n}/{name}.html": text(f"{name}{n}") for n in range(5) for name in (*names, "lime", "rowan")}
    old, copy, new = f"{SITE}/yew.html", f"{SITE}/v9/yew.html", f"{SITE}/wood/yew.html"
    frozen = {url.replace(SITE, f"{SITE}/v9"): page for url, page in here.items()}
    view.add({**pages, **here, **others, old: text("yew")})
    view.add({**pages, **here, **others, **frozen, copy: text("yew"), new: text("yew", 40) + text("bark", 15)})
    answer = finder(view).find(old)
    assert best(answer).url == new


def test_the_new_home_of_a_tree_wins_over_its_frozen_copy(view, finder, pages, text):
    names = ["aspen", "beech", "box", "holly", "oak", "pine"]
    before = {f"{SITE}/{name}.html": text(name) for name in names}
    frozen = {url.replace(SITE, f"{SITE}/v3"): page for url, page in before.items()}
    after = {f"{SITE}/docs/{name}.html": text(name, 45) + text(f"new {name}", 10) for name in names}
    view.add({**pages, **before}).add({**pages, **frozen, **after})
    search = finder(view)
    assert [best(search.find(url)).url for url in before] == list(after)


def test_a_tree_that_moved_unchanged_is_not_a_copy(view, finder, pages, text):
    names = ["aspen", "beech", "box", "holly", "oak", "pine"]
    before = {f"{SITE}/{name}.html": text(name) for name in names}
    after = {url.replace(SITE, f"{SITE}/docs"): page for url, page in before.items()}
    view.add({**pages, **before}).add({**pages, **after, f"{SITE}/all.html": " ".join(before.values())})
    search = finder(view)
    assert [best(search.find(url)).url for url in before] == list(after)
    assert all(search.find(url).status == "moved" for url in before)


def test_a_translation_is_not_a_move(view, finder, text):
    names = ["aspen", "beech", "box", "holly", "oak", "pine", "lime", "rowan"]

    def page(name, words):  # with the same code in all languages
        return (
            " ".join(f"{words}{n} {name}{n * 37 % 91} {words[::-1]}." for n in range(60)) + f" {name}(x=1, y=2) " * 9
        )

    english = {f"{SITE}/en/trees/{name}.html": page(name, "the") for name in names}
    french = {f"{SITE}/fr/trees/{name}.html": page(name, "le") for name in names}
    old, translated = f"{SITE}/en/trees/yew.html", f"{SITE}/fr/trees/yew.html"
    view.add({**english, **french, old: page("yew", "the")})
    view.add({**english, **french, translated: page("yew", "le")})
    answer = finder(view).find(old)
    assert answer.status == "gone"
