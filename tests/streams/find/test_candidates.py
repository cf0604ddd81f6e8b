"""Candidates from bounded look-ups."""

from __future__ import annotations

import pytest

from streams.find.candidates import parent_pages
from tests.streams.find.conftest import best

SITE = "https://site.example"
HOST2 = "https://new.example.net"


def test_parent_pages() -> None:
    pages = parent_pages(b"e,x)/doc/forms/fields.html")
    assert b"e,x)/doc/forms.html" in pages
    assert b"e,x)/doc/forms/" in pages
    assert b"e,x)/doc/" in pages
    assert parent_pages(b"e,x)/") == []


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
    assert (new in finder(view).ranked_urls(old)) is is_found


def test_a_stop_repeats_no_look_up(view, finder, pages, text):
    lookups: list[tuple[str, object]] = []

    def record_lookups(read):
        def recorded(keys, *limit):
            lookups.extend((read.__name__, key) for key in keys)
            return read(keys, *limit)

        return recorded

    for name in ("buckets", "sample_postings", "word_postings"):
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
