"""Whole histories of small sites, and what the finder says of them."""

from __future__ import annotations

import json

import pytest

from streams.find import Answer

SITE = "https://site.example"
HOST2 = "https://new.example.net"


@pytest.fixture
def pages(text):
    """Twelve pages that stay, so that the site has words that are common and words that are rare."""
    shared = "Home About Contact Imprint all rights reserved by the makers of this fine site. "
    subjects = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "willow"]
    return {f"{SITE}/trees/{name}.html": shared + text(name) for name in subjects}


def best(answer: Answer):
    return answer.candidates[0]


def kinds(answer: Answer) -> set[str]:
    return {evidence.kind for evidence in best(answer).evidence}


def test_alive_and_unknown(view, finder, pages):
    view.add(pages).add(pages)
    asked = finder(view)
    assert asked.find(f"{SITE}/trees/ash.html").status == "alive"
    assert asked.find(f"{SITE}/never.html") == Answer(
        url=f"{SITE}/never.html", status="unknown", last_seen=None, document=None, candidates=[]
    )
    assert asked.find("not a url").status == "unknown"


def test_a_moved_page(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/the-yew/"
    view.add({**pages, old: text("yew")}).add({**pages, new: text("yew") + " And more."})
    answer = finder(view).find(old)
    assert answer.status == "moved"
    assert best(answer).url == new
    assert best(answer).confidence >= 0.8
    assert best(answer).containment == pytest.approx(1.0, abs=0.05)
    assert {"appeared", "same_host"} <= kinds(answer)
    assert sum(candidate.confidence for candidate in answer.candidates[:2]) <= 1.0 + 1e-6


def test_the_json_contract(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/the-yew/"
    view.add({**pages, old: text("yew")}).add({**pages, new: text("yew")})
    answer = json.loads(finder(view).find(old).to_json())
    assert list(answer) == ["url", "status", "last_seen", "document", "candidates"]
    assert answer["last_seen"] == "1970-04-11T00:00:00Z"
    assert len(answer["document"]) == 32
    assert list(answer["candidates"][0]) == [
        "url", "confidence", "resemblance", "containment", "first_seen", "last_seen", "evidence",
    ]  # fmt: skip
    assert all(evidence["kind"] for evidence in answer["candidates"][0]["evidence"])


def test_a_page_that_is_gone(view, finder, pages, text):
    old = f"{SITE}/fish/herring.html"
    view.add({**pages, old: text("herring")}).add(pages)
    answer = finder(view).find(old)
    assert answer.status == "gone"
    assert all(candidate.confidence < 0.5 for candidate in answer.candidates)


def test_a_page_folded_into_a_longer_one(view, finder, pages, text):
    old, new = f"{SITE}/yews/needles.html", f"{SITE}/trees/ash.html"
    before = {**pages, old: text("needle", 12)}
    after = {**pages, new: pages[new] + text("needle", 12)}
    view.add(before).add(after)
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert answer.status == "moved"
    assert "folded_in" in kinds(answer)


def test_a_rewritten_page_is_found_by_its_words(view, finder, pages, text):
    old, new = f"{SITE}/a/yew.html", f"{SITE}/b/yew.html"
    words = text("yew").split()
    view.add({**pages, old: " ".join(words)}).add({**pages, new: " ".join(reversed(words))})
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert best(answer).resemblance == pytest.approx(0.0, abs=0.1)


def test_a_copy_that_stood_beside_it_is_no_move(view, finder, pages, text):
    old, frozen, new = f"{SITE}/yew.html", f"{SITE}/v1/yew.html", f"{SITE}/wood/yew.html"
    view.add({**pages, old: text("yew"), frozen: text("yew")})
    view.add({**pages, frozen: text("yew"), new: text("yew", 30) + text("bark", 15)})
    answer = finder(view).find(old)
    assert best(answer).url == new
    copy = next(candidate for candidate in answer.candidates if candidate.url == frozen)
    assert "stood_beside" in {evidence.kind for evidence in copy.evidence}
    assert copy.resemblance > best(answer).resemblance


def test_a_copy_of_the_whole_tree_is_no_move(view, finder, pages, text):
    old, new = f"{SITE}/trees/yew.html", f"{SITE}/wood/yew-tree.html"
    before = {**pages, old: text("yew")}
    frozen = {url.replace(SITE, f"{SITE}/v1"): page for url, page in before.items()}
    view.add(before).add({**pages, **frozen, new: text("yew", 30) + text("bark", 15)})
    answer = finder(view).find(old)
    assert best(answer).url == new


def test_a_page_that_became_a_folder_is_found_at_its_place(view, finder, pages, text):
    """Not at the part that took most of its text."""
    old, folder = f"{SITE}/guide/faq.html", f"{SITE}/guide/faq"
    parts = {name: text(name, size) for name, size in (("install", 20), ("usage", 14), ("errors", 14))}
    start = "Questions that are asked again and again, by theme. Look at install, at usage, and at errors."
    view.add({**pages, old: start + " ".join(parts.values())})
    view.add({**pages, f"{folder}/index.html": start, **{f"{folder}/{name}.html": parts[name] for name in parts}})
    assert best(finder(view).find(old)).url == f"{folder}/index.html"


def test_a_sketch_of_a_short_page_is_not_believed_to_be_in_a_long_one(textless, finder, text):
    """Without texts: by chance the estimate of a containment may be 1, with an error as large."""
    short = {f"{SITE}/manual/cmd{n}.html": text(f"manual{n}", 3) for n in range(40)}
    long = {f"{SITE}/manual/": " ".join(text(f"subject{n}", 30) for n in range(60))}
    textless.add({**short, f"{SITE}/other.html": text("other")}).add({f"{SITE}/other.html": text("other"), **long})
    asked = finder(textless)
    for url in short:
        assert all(candidate.containment < 0.1 for candidate in asked.find(url).candidates)


def test_redirects_are_the_strongest(view, finder, pages, text):
    old, middle, new = f"{SITE}/yew", f"{SITE}/yew2", f"{SITE}/trees/ash.html"
    view.add({**pages, old: text("yew")}).add(pages, redirects={old: "/yew2", middle: new})
    answer = finder(view).find(old)
    assert answer.status == "moved"
    assert best(answer).url == new
    assert "redirect" in kinds(answer)
    assert best(answer).confidence > 0.9


def test_redirects_that_only_lead_home_are_doubted(view, finder, pages, text):
    home = f"{SITE}/"
    old = [f"{SITE}/fish/{name}.html" for name in ("herring", "cod", "eel", "pike", "carp", "bass")]
    first = {**pages, home: text("welcome"), **{url: text(url[-9:-5]) for url in old}}
    view.add(first).add({**pages, home: text("welcome")}, redirects=dict.fromkeys(old, home))
    answer = finder(view).find(old[0])
    assert answer.status == "gone"
    assert all(candidate.confidence < 0.5 for candidate in answer.candidates)


@pytest.mark.parametrize("target", ["/yew", "http://site.example/yew", "http://[", "/a", "mailto:x@example.org"])
def test_redirects_that_lead_nowhere(view, finder, pages, text, target):
    old = f"{SITE}/yew"
    view.add({**pages, old: text("yew")}).add(pages, redirects={old: target, f"{SITE}/a": "/b", f"{SITE}/b": "/a"})
    answer = finder(view).find(old)
    assert answer.status in {"gone", "alive"}


def test_an_error_page_served_as_success_is_no_target(view, finder, pages, text):
    names = ["herring", "cod", "eel", "pike", "carp", "bass"]
    old = [f"{SITE}/fish/{name}.html" for name in names]
    sorry = "Sorry, the page herring that you asked for was not found on this server. Try the search. " + text(
        "sorry"
    )
    view.add({**pages, **dict(zip(old, map(text, names), strict=True))})
    view.add({**pages, **dict.fromkeys(old, sorry)})
    answer = finder(view).find(old[0])
    assert answer.status == "gone"
    reported = answer.candidates[-1]
    assert reported.confidence == 0.0
    assert {evidence.kind for evidence in reported.evidence} == {"suspected_soft_404"}
    assert all(candidate.url not in old for candidate in answer.candidates[:-1])


def test_an_error_makes_a_url_missing(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"
    view.add({**pages, old: text("yew")}).add({**pages, old: 404, new: text("yew")})
    assert finder(view).find(old).status == "moved"


def test_an_open_sweep_makes_nothing_missing(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"
    view.add({**pages, old: text("yew")}).add({**pages, new: text("yew")}, committed=False)
    assert finder(view).find(old).status == "alive"


def test_a_sweep_of_other_sites_makes_nothing_missing(view, finder, pages, text):
    other = {f"{HOST2}/{n}": text(f"subject{n}") for n in range(5)}
    view.add(pages).add(other)
    assert finder(view).find(f"{SITE}/trees/ash.html").status == "alive"


def test_a_site_that_moved_to_another_host(view, finder, pages):
    view.add(pages).add({url.replace(SITE, HOST2): page for url, page in pages.items()})
    asked = finder(view)
    for url in pages:
        answer = asked.find(url)
        assert answer.status == "moved"
        assert best(answer).url == url.replace(SITE, HOST2)
    assert "other_domain" in kinds(asked.find(f"{SITE}/trees/ash.html"))


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


def test_a_page_that_moved_twice_is_followed(view, finder, pages, text):
    old, stop, new = f"{SITE}/guide/yew.html", f"{SITE}/trees/yew/care.html", f"{SITE}/trees/yew.html"
    first, second = text("yew", 30), text("yew", 30) + text("care", 30)
    third = text("care", 30) + text("soil", 60)
    view.add({**pages, old: first}).add({**pages, stop: second}).add({**pages, new: third})
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert any(evidence.kind == "stop" and evidence.detail == stop for evidence in best(answer).evidence)


def test_a_stub_asks_for_the_page_that_it_was(view, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yews.html"
    view.add({**pages, old: text("yew")}).add({**pages, old: "This page has moved away."})
    view.add({**pages, new: text("yew")})
    answer = finder(view).find(old)
    assert best(answer).url == new
    assert answer.status == "moved"


def test_rules_lead_to_pages_rewritten_beyond_recognition(view, finder, pages, text):
    names = ["perch", "tench", "roach", "bream", "ruffe"]
    old = {f"{SITE}/docs/{name}.html": text(name) for name in names}
    new = {f"{SITE}/guide/water/{name}/": text(name) for name in names}
    lost, found = f"{SITE}/docs/pike.html", f"{SITE}/guide/water/pike/"
    view.add({**pages, **old, lost: text("pike")}).add({**pages, **new, found: text("otherwise")})
    *_, answer = finder(view).find_many([*old, lost])
    assert best(answer).url == found
    assert "rule" in kinds(answer)
    alone = next(finder(view).find_many([lost]))
    assert "rule" in kinds(alone)  # its missing neighbours are asked along
    unseen = next(iter(list(finder(view).find_many([*old, f"{SITE}/docs/pike.html#x"]))[-1:]))
    assert unseen.url.endswith("#x")


def test_rules_are_learned_from_the_last_moves_only(view, finder, pages, text, monkeypatch):
    names = ["perch", "tench", "roach", "bream", "ruffe"]
    old = {f"{SITE}/docs/{name}.html": text(name) for name in names}
    new = {f"{SITE}/guide/water/{name}/": text(name) for name in names}
    lost, found = f"{SITE}/docs/pike.html", f"{SITE}/guide/water/pike/"
    view.add({**pages, **old, lost: text("pike")}).add({**pages, **new, found: text("otherwise")})
    for most, learned in ((5, True), (1, False)):
        monkeypatch.setattr("streams.find.finder.MOVES_MAX", most)
        asked = finder(view)
        *_, answer = asked.find_many([*old, lost, *(f"{SITE}/none/{n}" for n in range(9))])
        answer = asked.find(lost)
        assert ("rule" in kinds(answer)) is learned
        assert asked.counters["find_moves_max"] == 5 - most


def test_rules_only_lead_to_what_is_there(view, finder, pages, text):
    names = ["perch", "tench", "roach"]
    old = {f"{SITE}/docs/{name}.html": text(name) for name in names}
    new = {f"{SITE}/guide/{name}/": text(name) for name in names}
    lost = f"{SITE}/docs/pike.html"
    view.add({**pages, **old, lost: text("pike")}).add({**pages, **new})
    *_, answer = finder(view).find_many([*old, lost])
    assert f"{SITE}/guide/pike/" not in [candidate.url for candidate in answer.candidates]


def test_without_texts_sketches_rank(textless, finder, pages, text):
    old, new = f"{SITE}/old/yew.html", f"{SITE}/wood/yew.html"
    textless.add({**pages, old: text("yew")}).add({**pages, new: text("yew") + text("bark")})
    answer = finder(textless).find(old)
    assert best(answer).url == new
    assert best(answer).containment > 0.6


def test_answers_keep_the_order_of_questions(view, finder, pages, text):
    view.add(pages).add(pages)
    asked = [*pages, "nonsense", f"{SITE}/never"]
    assert [answer.url for answer in finder(view).find_many(iter(asked))] == asked


def test_an_empty_state_answers(view, finder):
    assert finder(view).find(f"{SITE}/").status == "unknown"
    assert list(finder(view).find_many([])) == []


def test_limits_are_counted(view, finder, text):
    many = {f"{SITE}/yew/{n}.html": text("yew") + f" page{n} of many" for n in range(250)}
    old = f"{SITE}/yews/0.html"
    view.add({**many, old: text("yew")}).add(many)
    asked = finder(view)
    asked.find(old)
    assert asked.counters["find_candidates_max"] > 0
    assert asked.counters["find_compared_max"] > 0


def test_texts_are_read_of_the_most_promising_only(view, finder, text):
    """One page moved and was rewritten a little; many beside it share its folder and some of its words."""
    names = [f"{SITE}/guide/{n}/notes.html" for n in range(60)]
    others = {url: text(f"other {n}") + " yew larch fir" for n, url in enumerate(names)}
    old, new = f"{SITE}/guide/yews.html", f"{SITE}/trees/evergreen.html"
    view.add({**others, old: text("yew")}).add({**others, new: text("yew") + " and a line more"})
    found = finder(view, compared_max=3, site_sample_documents=8).find(old)
    assert found.candidates[0].url == new
    assert len(found.candidates) == 3
    assert view.texts_read <= 1 + 8 + 2 * 3, "the page's own, the site's sample, two versions of each"


def test_what_promises_little_beside_the_best_is_not_compared(view, finder, text):
    """A page moved as it was; of the many beside it that share a few words with it, most stay unread."""
    others = {f"{SITE}/guide/{n}/notes.html": text(f"other {n}") + " yew larch fir" for n in range(60)}
    old, new = f"{SITE}/guide/yews.html", f"{SITE}/guide/trees/yews.html"
    view.add({**others, old: text("yew")}).add({**others, new: text("yew")})
    asked = finder(view, site_sample_documents=8)
    assert asked.find(old).candidates[0].url == new
    assert asked.counters["find_promise_share_min"] == 1
    assert asked.counters["find_compared_max"] == 0
    assert view.texts_read <= 1 + 8 + 2 * 16 + 2, (
        "the page's own, the site's sample, two versions of those read first"
    )


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


def test_old_versions_below_the_root_are_no_neighbours(view, finder, pages, text):
    """Only what lies beside a page tells whether its tree was copied, however many versions lie below."""
    names = ["aspen", "beech", "box", "holly", "oak", "pine"]
    here = {f"{SITE}/{name}.html": text(name) for name in names}
    others = {f"{SITE}/v{n}/{name}.html": text(f"{name}{n}") for n in range(5) for name in (*names, "lime", "rowan")}
    old, copy, new = f"{SITE}/yew.html", f"{SITE}/v9/yew.html", f"{SITE}/wood/yew.html"
    frozen = {url.replace(SITE, f"{SITE}/v9"): page for url, page in here.items()}
    view.add({**pages, **here, **others, old: text("yew")})
    view.add({**pages, **here, **others, **frozen, copy: text("yew"), new: text("yew", 40) + text("bark", 15)})
    answer = finder(view).find(old)
    assert best(answer).url == new


def test_a_tree_that_went_as_a_whole_is_told_from_its_frozen_copy(view, finder, pages, text):
    names = ["aspen", "beech", "box", "holly", "oak", "pine"]
    before = {f"{SITE}/{name}.html": text(name) for name in names}
    frozen = {url.replace(SITE, f"{SITE}/v3"): page for url, page in before.items()}
    after = {f"{SITE}/docs/{name}.html": text(name, 45) + text(f"new {name}", 10) for name in names}
    view.add({**pages, **before}).add({**pages, **frozen, **after})
    asked = finder(view)
    assert [best(asked.find(url)).url for url in before] == list(after)


def test_a_tree_that_moved_as_it_was_is_no_copy(view, finder, pages, text):
    names = ["aspen", "beech", "box", "holly", "oak", "pine"]
    before = {f"{SITE}/{name}.html": text(name) for name in names}
    after = {url.replace(SITE, f"{SITE}/docs"): page for url, page in before.items()}
    view.add({**pages, **before}).add({**pages, **after, f"{SITE}/all.html": " ".join(before.values())})
    asked = finder(view)
    assert [best(asked.find(url)).url for url in before] == list(after)
    assert all(asked.find(url).status == "moved" for url in before)


def test_a_page_at_the_same_place_in_another_language_is_no_move(view, finder, text):
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
