"""Copies of directory trees."""

from __future__ import annotations

from streams.find.batch_lru import BatchLru
from streams.find.copies import CopyDetector, tree_roots
from streams.find.missing_rule import SweepIndex
from streams.urls import url_key

SITE = "https://site.example"


def testtree_roots():
    assert tree_roots(b"e,x)/latest/a/b.html", b"e,x)/v1/a/b.html") == (b"e,x)/latest/", b"e,x)/v1/")
    assert tree_roots(b"e,x)/a/b.html", b"e,x)/a/c.html")[0] == tree_roots(b"e,x)/a/b.html", b"e,x)/a/c.html")[1]
    assert tree_roots(b"e,x)/a/", b"e,y)/b/") == (b"e,x)/a/", b"e,x)/a/")


def test_pages_with_equal_names_but_other_texts_are_not_copies(view, text):
    names = ["api", "faq", "intro", "setup", "usage"]
    one = {f"{SITE}/one/{name}.html": text(name + "one") for name in names}
    two = {f"{SITE}/two/{name}.html": text(name + "two") for name in names}
    old = f"{SITE}/one/config.html"
    view.add({**one, **two, old: text("config")}).add({**one, **two, f"{SITE}/two/config.html": text("config")})
    copies = CopyDetector(view, BatchLru(view.documents, 99), SweepIndex(view).last_sweep_of)
    assert copies.copied_share(url_key(old), url_key(f"{SITE}/two/config.html"), 1, 2) == 0.0


def test_old_versions_do_not_hide_a_copy(view, text):
    """Neighbours are pages near the old one, not pages of other versions, although these come first."""
    names = ["api", "faq", "intro", "setup", "usage", "tour", "news", "tips"]
    tree = {name: text(name) for name in names}
    versions = {f"{SITE}/v{n}/guide/{name}.html": page for n in range(1, 20) for name, page in tree.items()}
    here = {f"{SITE}/guide/{name}.html": page for name, page in tree.items()}
    old, copy = f"{SITE}/guide/config.html", f"{SITE}/v60/guide/config.html"
    frozen = {f"{SITE}/v60/guide/{name}.html": page for name, page in tree.items()}
    view.add({**versions, **here, old: text("config")})
    view.add({**versions, **here, **frozen, copy: text("config")})
    copies = CopyDetector(view, BatchLru(view.documents, 99), SweepIndex(view).last_sweep_of)
    assert copies.copied_share(url_key(old), url_key(copy), 1, 2) == 1.0


def test_neighbours_that_moved_later_count_too(view, text):
    names = ["api", "faq", "intro", "setup", "usage"]
    here = {f"{SITE}/latest/{name}.html": text(name) for name in names}
    old, copy = f"{SITE}/latest/config.html", f"{SITE}/v1/config.html"
    frozen = {url.replace("latest", "v1"): page for url, page in here.items()}
    view.add({**here, old: text("config")}).add({**here, **frozen, copy: text("config")})
    view.add({**frozen, copy: text("config"), **{url.replace("latest", "main"): p for url, p in here.items()}})
    copies = CopyDetector(view, BatchLru(view.documents, 99), SweepIndex(view).last_sweep_of)
    assert copies.copied_share(url_key(old), url_key(copy), 1, 2) == 1.0
