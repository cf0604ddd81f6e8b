"""Candidates from bounded look-ups."""

from __future__ import annotations

import pytest

from streams.find.candidates import parent_pages
from tests.streams.find.conftest import best

SITE = "https://site.example"
HOST2 = "https://new.example.net"


def test_pages_parent_pages() -> None:
    found = parent_pages(b"e,x)/doc/forms/fields.html")
    assert b"e,x)/doc/forms.html" in found
    assert b"e,x)/doc/forms/" in found
    assert b"e,x)/doc/" in found
    assert parent_pages(b"e,x)/") == []


@pytest.mark.parametrize(
    ("others", "alive", "found"),
    [(2, True, True), (6, True, False), (6, False, True)],
    ids=["few", "many", "its died"],
)
def test_words_are_looked_up_on_new_hosts_unless_any_of_many_could_be_meant(
    view, finder, pages, text, others, alive, found
):
    words = text("yew").split()
    # Beyond shingles: no two words stand together any more.
    rewritten = " ".join(words[::3] + words[1::3] + words[2::3])
    old, new = f"{SITE}/old/yew.html", f"{HOST2}/wood/conifer.html"
    crowd = {f"https://other{n}.example.com/{n}.html": text(f"other {n}") for n in range(others)}
    home = {f"{HOST2}/{name}.html": text(name) for name in ("first", "second")}
    view.add({**pages, old: text("yew")}).add({**(pages if alive else {}), **crowd, **home, new: rewritten})
    assert (new in finder(view).ranked_urls(old)) is found


def test_a_stop_asks_nothing_that_was_asked(view, finder, pages, text):
    asked: list[tuple[str, object]] = []

    def listening(read):
        def recorded(keys, *limit):
            asked.extend((read.__name__, key) for key in keys)
            return read(keys, *limit)

        return recorded

    for name in ("buckets", "sample_postings", "word_postings"):
        setattr(view, name, listening(getattr(view, name)))
    old, stop, new = f"{SITE}/guide/yew.html", f"{SITE}/trees/yew/care.html", f"{SITE}/trees/yew.html"
    first = text("yew", 40)
    second = first + text("care", 10)
    view.add({**pages, old: first}).add({**pages, stop: second}).add({**pages, new: second + text("more", 10)})
    found = best(finder(view).find(old))
    assert found.url == new
    assert any(evidence.kind == "stop" for evidence in found.evidence)
    assert len({kind for kind, _ in asked}) == 3
    assert len(asked) == len(set(asked))
