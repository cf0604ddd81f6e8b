"""Candidates from bounded look-ups."""

from __future__ import annotations

import pytest

from streams.find.candidates import parent_page_keys
from tests.streams.find.conftest import best

SITE = "https://site.example"
HOST2 = "https://new.example.net"


def test_parent_pages() -> None:
    pages = parent_page_keys(b"e,x)/doc/forms/fields.html")
    assert b"e,x)/doc/forms.html" in pages
    assert b"e,x)/doc/forms/" in pages
    assert b"e,x)/doc/" in pages
    assert parent_page_keys(b"e,x)/") == []


@pytest.mark.parametrize(
    ("others", "is_alive", "is_found"),
    [(2, True, True), (6, True, False), (6, False, True)],
    ids=["few", "many", "many, old host gone"],
)
def test_words_are_looked_up_on_new_hosts_unless_there_are_too_many(
    view, finder, pages, text, others, is_alive, is_found
):
    words = text("yew").split()
    # No shingle is left: no two words are adjacent any more.
    rewritten = " ".join(words[::3] + words[1::3] + words[2::3])
    old, new = f"{SITE}/old/yew.html", f"{HOST2}/wood/conifer.html"
    crowd = {f"https://other{n}.example.com/{n}.html": text(f"other {n}") for n in range(others)}
    home = {f"{HOST2}/{name}.html": text(name) for name in ("first", "second")}
    view.add({**pages, old: text("yew")}).add({**(pages if is_alive else {}), **crowd, **home, new: rewritten})
    assert (new in finder(view, scope=["site.example"]).ranked_urls(old)) is is_found


def test_the_search_from_a_stop_repeats_no_look_up(view, finder, pages, text):
    lookups: list[tuple[str, object]] = []

    def record_lookups(read):
        def recorded(keys, *limit):
            lookups.extend((read.__name__, key) for key in keys)
            return read(keys, *limit)

        return recorded

    for name in ("bucket_postings", "sample_postings", "word_postings"):
        setattr(view, name, record_lookups(getattr(view, name)))
    old, stop, new = f"{SITE}/guide/yew.html", f"{SITE}/trees/yew/care.html", f"{SITE}/trees/yew.html"
    first = text("yew", 40)
    second = first + text("care", 10)
    view.add({**pages, old: first}).add({**pages, stop: second}).add({**pages, new: second + text("more", 10)})
    candidate = best(finder(view).find(old))
    assert candidate.url == new
    assert any(evidence.kind == "stop" for evidence in candidate.evidence)
    assert len({kind for kind, _ in lookups}) == 3
    assert len(lookups) == len(set(lookups))


def test_only_the_texts_of_the_most_promising_urls_are_read(view, finder, text):
    """One page moved and was rewritten a little; many beside it share its folder and some of its words."""
    names = [f"{SITE}/guide/{n}/notes.html" for n in range(60)]
    others = {url: text(f"other {n}") + " yew larch fir" for n, url in enumerate(names)}
    old, new = f"{SITE}/guide/yews.html", f"{SITE}/trees/evergreen.html"
    view.add({**others, old: text("yew")}).add({**others, new: text("yew") + " and a line more"})
    answer = finder(view, compared_max=3, site_sample_documents=8).find(old)
    assert answer.candidates[0].url == new
    assert len(answer.candidates) == 3
    assert view.texts_read <= 1 + 8 + 2 * 3, "the page's own, the site's sample, two versions of each"


def test_urls_that_promise_little_are_not_compared(view, finder, text):
    """A page moved as it was; of the many beside it that share a few words with it, most stay unread."""
    others = {f"{SITE}/guide/{n}/notes.html": text(f"other {n}") + " yew larch fir" for n in range(60)}
    old, new = f"{SITE}/guide/yews.html", f"{SITE}/guide/trees/yews.html"
    view.add({**others, old: text("yew")}).add({**others, new: text("yew")})
    search = finder(view, site_sample_documents=8)
    assert search.find(old).candidates[0].url == new
    assert search.counters["find_promise_share_min"] == 1
    assert search.counters["find_compared_max"] == 0
    assert view.texts_read <= 1 + 8 + 2 * 16 + 2, (
        "the page's own, the site's sample, two versions of those read first"
    )


def test_limits_are_counted(view, finder, text):
    many = {f"{SITE}/yew/{n}.html": text("yew") + f" page{n} of many" for n in range(250)}
    old = f"{SITE}/yews/0.html"
    view.add({**many, old: text("yew")}).add(many)
    search = finder(view)
    search.find(old)
    assert search.counters["find_candidates_max"] > 0
    assert search.counters["find_compared_max"] > 0


def test_a_text_at_many_urls_is_found_at_the_newest_one(view, finder, pages, text):
    old = {f"{SITE}/{n:02}/guide.html": text("yew") for n in range(30)}
    view.add({**pages, **old}).add({**pages, f"{SITE}/zlatest/handbook": text("yew")})
    search = finder(view)
    answer = search.find(f"{SITE}/03/guide.html")
    assert (answer.status, answer.candidates[0].url) == ("moved", f"{SITE}/zlatest/handbook")
    assert search.counters["find_locations_max"] > 0
