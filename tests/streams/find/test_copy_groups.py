"""Of several copies of a page in parallel trees, the one in the old URL's tree is the answer."""

import pytest

from streams.find.answer import Copy
from streams.find.copies import version_closeness, version_of
from streams.urls import url_key
from tests.streams.find.conftest import best

SITE = "https://site.example"
NAMES = ("ash", "elm", "fir", "oak", "yew")


def version(text, number, names=NAMES):
    """Return the texts of a tree's pages by name: most of the text is the same in all versions."""
    return {name: text(name, 40) + text(f"{name} version {number}", 4) for name in names}


def under(prefix, texts):
    return {f"{SITE}{prefix}{name}.html": page for name, page in texts.items()}


def test_the_copy_in_the_living_tree_is_the_answer_and_the_frozen_copy_is_listed(view, finder, text):
    """The living page has changed since it was copied to the tree of a version."""
    first, second = version(text, 1), version(text, 2)
    view.add(under("/latest/", first))
    view.add(under("/latest/trees/", second) | under("/v1.2/trees/", first))
    for name in NAMES:
        candidate = best(finder(view).find(f"{SITE}/latest/{name}.html"))
        assert candidate.url == f"{SITE}/latest/trees/{name}.html"
        assert candidate.copies == [Copy(f"{SITE}/v1.2/trees/{name}.html", None, "1.2")]
        assert candidate.confidence >= 0.5


def test_a_copy_on_a_mirror_is_listed_with_its_host(view, finder, text):
    texts = version(text, 1)
    mirrored = {url.replace("site", "mirror"): page for url, page in under("/trees/", texts).items()}
    view.add(under("/", texts)).add(under("/trees/", version(text, 2)) | mirrored)
    candidate = best(finder(view).find(f"{SITE}/yew.html"))
    assert candidate.url == f"{SITE}/trees/yew.html"
    assert candidate.copies == [Copy("https://mirror.example/trees/yew.html", "mirror.example", None)]


@pytest.mark.parametrize(("old_tree", "other_tree"), [("/docs/2.x/", "/docs/3.x/"), ("/stable/", "/v9/")])
def test_a_short_page_follows_the_rule_of_its_neighbours(view, finder, text, old_tree, other_tree):
    """The neighbouring version has the same short page, and its URL is more like the old one."""
    short_page = {"index": text("contents", 3)}
    names = [f"{name}{number}" for name in NAMES for number in range(4)]
    view.add(under(old_tree, version(text, 2, names) | short_page))
    view.add(
        under("/docs/lts/", version(text, 2, names) | {"index": text("contents", 3) + " changed"})
        | under(other_tree, {name: text(name, 20) + text(f"{name} new", 30) for name in names} | short_page)
    )
    answers = list(finder(view).find_many([f"{SITE}{old_tree}{name}.html" for name in (*names, "index")]))
    assert [best(answer).url for answer in answers] == [f"{SITE}/docs/lts/{name}.html" for name in (*names, "index")]


def test_a_frozen_copy_is_no_move_even_if_no_neighbour_survived(view, finder, text):
    """Every page of the living tree moved, so that only the version number shows which tree is frozen."""
    old_texts = version(text, 1)
    view.add(under("/latest/", old_texts))
    folded = {"all": " ".join(old_texts.values()) + text("more", 200)}
    view.add(under("/latest/guide/", folded) | under("/v1/", old_texts))
    assert best(finder(view).find(f"{SITE}/latest/yew.html")).url == f"{SITE}/latest/guide/all.html"


def test_pages_made_from_one_template_are_not_copies_of_each_other(view, finder, text):
    notes = {f"release-{n}": text("thanks to all contributors", 60) + f" version {n}" for n in (1, 2, 3)}
    view.add(under("/old/", notes)).add(under("/new/", notes))
    for name in notes:
        candidate = best(finder(view).find(f"{SITE}/old/{name}.html"))
        assert (candidate.url, candidate.copies) == (f"{SITE}/new/{name}.html", [])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/docs/v1.2/a.html", "1.2"),
        ("/docs-release-1.13/a", "1.13"),
        ("/3.x/guide/2/a", "3.x/2"),
        ("/en/latest/a", None),
        ("/release-notes/1.2", None),
        ("/sha256sum/a", None),
    ],
)
def test_version_numbers_in_folders(path, expected):
    assert version_of(url_key(SITE + path)) == expected


@pytest.mark.parametrize(
    ("old", "new", "closeness"),
    [("/v2/a", "/2/b/a", 2), ("/a", "/b/a", 2), ("/v2/a", "/a", 1), ("/a", "/v2/a", 0), ("/v1/a", "/v2/a", 0)],
)
def test_closeness_of_versions(old, new, closeness):
    assert version_closeness(url_key(SITE + old), url_key(SITE + new)) == closeness


def test_a_neighbour_in_the_frozen_tree_is_not_the_new_home(view, finder, pages, text):
    """The frozen copy of a dead neighbour shares the folder and some words with the old page."""
    old, neighbour, new = (f"{SITE}/latest/{name}" for name in ("git/fork.html", "git/forks.html", "setup.html"))
    here = {url.replace(SITE, f"{SITE}/latest"): page for url, page in pages.items()}
    before = {**here, old: text("fork", 30), neighbour: text("fork", 12) + text("remote", 30)}
    frozen = {url.replace("latest", "old"): page for url, page in before.items()}
    view.add(before).add({**here, **frozen, new: text("fork", 8) + text("install", 40)})
    assert best(finder(view).find(old)).url == new
