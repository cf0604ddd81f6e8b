"""The pieces that the finder is put together from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.model import Capture
from streams.find import score as scoring
from streams.find import text_similarity as texts_module
from streams.find.batch_lru import BatchLru
from streams.find.candidates import above
from streams.find.copies import Copies, SoftErrors, _heads
from streams.find.history import SweepIndex, life_of
from streams.find.score import Traits
from streams.find.text_similarity import Asked, Site, Texts, sample_site
from streams.sketch.sketcher import Sketcher
from streams.timestamps import iso
from streams.urls import host_prefix, url_key

SITE = "https://site.example"


def no_soft(_document: bytes, _key: bytes) -> bool:
    return False


def life(view, url):
    return life_of(url_key(url), view.captures(url_key(url)), SweepIndex(view), no_soft)


class TestHistory:
    def test_a_url_that_comes_back_is_alive(self, view):
        a, b = f"{SITE}/a", f"{SITE}/b"
        view.add({a: "one two", b: "x"}).add({b: "x"}).add({a: "one two", b: "x"})
        assert life(view, a).alive
        assert life(view, b).alive

    def test_the_first_sweep_that_missed_it(self, view):
        a, b = f"{SITE}/a", f"{SITE}/b"
        view.add({a: "one two", b: "x"}).add({b: "x"}).add({b: "x"})
        assert life(view, a).missed == 2
        assert life(view, a).last.sweep == 1

    def test_another_host_of_the_domain_was_visited(self, view):
        a = f"{SITE}/a"
        view.add({a: "one two"}).add({"https://www.site.example/b": "x"})
        assert life(view, a).missed == 2

    def test_another_host_of_the_crawl_was_visited(self, view):
        a, other = f"{SITE}/a", "https://other.example.net/"
        view.add({a: "one two", other: "x"}).add({other: "x"})
        assert life(view, a).missed == 2

    def test_only_errors(self, view):
        view.add({f"{SITE}/a": 404})
        assert not life(view, f"{SITE}/a").held
        assert life(view, f"{SITE}/a").missed == 1

    def test_a_redirect_to_another_spelling_of_itself_is_nothing(self, view):
        view.add({f"{SITE}/a": "one two"}, redirects={"http://site.example/a": f"{SITE}/a"})
        assert life(view, f"{SITE}/a").alive

    def test_the_last_capture_of_a_sweep_counts(self, view):
        view.add({f"{SITE}/a": "one two"}, redirects={f"{SITE}/a": f"{SITE}/b"})
        assert not life(view, f"{SITE}/a").alive

    @given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([200, 204, 301, 304, 404, 429, 503])), max_size=8))
    def test_a_life_is_consistent(self, captures):
        from tests.streams.find.conftest import MemoryView

        view = MemoryView()
        for _ in range(4):
            view.add({f"{SITE}/other": "x y"})
        key = url_key(f"{SITE}/a")
        rows = [
            Capture(
                key=key,
                url=f"{SITE}/a",
                sweep=sweep,
                time=sweep,
                status=status,
                document=b"d" * 16 if status == 200 else None,
                raw=b"",
                redirect=None,
            )
            for sweep, status in sorted(captures)
        ]
        found = life_of(key, rows, SweepIndex(view), no_soft)
        assert all(c.status == 200 for c in found.held)
        assert not {c.status for c in found.refused} & {200, 204, 304}
        assert found.textless is None or found.textless.status in {204, 304}
        assert found.tried == max((sweep for sweep, _ in captures), default=0)
        if found.held and found.missed is not None:
            assert found.missed > found.held[-1].sweep


class TestScore:
    def test_confidence_grows_with_score_and_margin(self):
        def sure(best: float, second: float) -> float:
            return scoring.confidence(best, second, Traits(containment=0.5, cosine=0.5, appeared=True))

        assert sure(2.0, 0.2) > sure(2.0, 1.8) > sure(1.0, 0.9)
        assert sure(0.0, 0.0) < 0.2
        thin = scoring.confidence(2.0, 0.2, Traits(cosine=0.05, appeared=True))
        assert thin < sure(2.0, 0.2)

    def test_a_lone_candidate_with_little_in_common_is_not_sure(self):
        """Not all pages were looked at: that no other was found says little."""
        traits = Traits(containment=0.0, cosine=0.05, appeared=True)
        assert scoring.confidence(0.3, 0.0, traits) == scoring.confidence(0.3, scoring.SECOND_LEAST, traits) < 0.5

    def test_a_page_of_a_copied_tree_is_doubted_beyond_its_score(self):
        traits = Traits(containment=0.8, weighed=0.8, cosine=0.8, path=1.0)
        copied = traits._replace(replica=0.9)
        assert scoring.confidence(scoring.score(traits), 0.0, traits) > 0.9
        assert scoring.confidence(scoring.score(copied), 0.0, copied) < 0.5
        assert scoring.confidence(2.0, 0.0, copied) < scoring.confidence(2.0, 0.0, traits)

    @given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 2), st.floats(0, 2))
    def test_a_containment_is_believed_less_the_larger_its_error(self, share, other, error, larger):
        assert scoring.believed(share, 0.0) == share
        assert (
            0.0 <= scoring.believed(share, max(error, larger)) <= scoring.believed(share, min(error, larger)) <= share
        )
        low, high = sorted((share, other))
        assert scoring.believed(low, error) <= scoring.believed(high, error)

    @given(st.floats(-2, 4), st.floats(-2, 4), st.booleans())
    def test_confidence_is_a_share(self, best, second, appeared):
        assert 0.0 < scoring.confidence(best, second, Traits(appeared=appeared)) < 1.0

    def test_what_counts_for_and_against(self):
        plain = Traits(containment=0.5, weighed=0.5, cosine=0.5)
        assert scoring.score(plain._replace(beside=0.9)) < scoring.score(plain)
        assert scoring.score(plain._replace(replica=0.9)) < scoring.score(plain)
        assert scoring.score(plain._replace(path=0.9)) > scoring.score(plain)
        assert scoring.score(plain._replace(rule=0.9)) > scoring.score(plain)
        assert scoring.score(plain._replace(cosine=None)) < scoring.score(plain)


def test_a_large_site_is_sampled_in_all_its_folders(view, monkeypatch):
    """Files at the root, which all folders are in, end nothing."""
    root = {f"{SITE}/{n:03}.html": "x y" for n in range(40)}
    view.add({**root, **{f"{SITE}/{name}/{n}": f"{name} {n}" for name in "abc" for n in range(40)}})
    monkeypatch.setattr(texts_module, "_SCAN_MAX", 16)
    monkeypatch.setattr(texts_module, "_SKIP_CAPTURES", 16)
    sample = sample_site(view, host_prefix(url_key(SITE)), 8, 1)
    urls = sample_site(view, host_prefix(url_key(SITE)), 64, 1)
    assert len(sample) >= 8
    assert {captures[0].url.split("/")[3] for captures in urls} >= {"a", "b", "c"}


class TestTexts:
    @pytest.fixture
    def asked(self, view, text):
        pages = {f"{SITE}/{name}": "All of the menu is on all of the pages. " + text(name) for name in "abcdefgh"}
        view.add(pages)
        texts = Texts(view, Sketcher(view.scheme))
        site = Site(sample_site(view, host_prefix(url_key(SITE)), 64, 1), texts, 1)

        def like(one: str, other: str):
            return Asked(texts.features("", one), site, 1, texts).like(other.encode(), texts.features("", other))

        return like

    def test_the_same(self, asked, text):
        found = asked(text("yew"), text("yew"))
        assert found[:2] == (1.0, 1.0)
        assert found.cosine == pytest.approx(1.0)
        assert found.title == pytest.approx(1.0)

    def test_a_menu_counts_for_little(self, asked):
        menu = "All of the menu is on all of the pages. "
        found = asked(menu + "short news", menu + "other story")
        assert found.containment > 0.5
        assert found.rare_containment < 0.3

    def test_folded_in(self, asked, text):
        found = asked(text("yew", 10), text("elm") + " " + text("yew", 10))
        assert found.containment > 0.95
        assert found.resemblance < 0.4

    def test_nothing_in_common_and_nothing_at_all(self, asked, text):
        assert asked(text("yew"), "") == (0.0, 0.0, 0.0, 0.0, 0.0)
        assert asked("", text("yew")).cosine == 0.0

    def test_a_large_site_is_sampled_over_its_folders(self, view):
        view.add({f"{SITE}/{folder:02}/{n:03}": f"page {folder} {n}" for folder in range(50) for n in range(100)})
        chosen = sample_site(view, host_prefix(url_key(SITE)), 400, 1)
        folders = {captures[0].key.split(b"/")[1] for captures in chosen}
        assert len(chosen) == 400
        assert len(folders) > 40

    def test_a_site_with_many_sweeps_is_sampled_like_one_with_few(self, view):
        pages = {f"{SITE}/{folder:02}/{n}": f"page {folder} {n}" for folder in range(50) for n in range(3)}
        for _ in range(30):
            view.add(pages)
        chosen = sample_site(view, host_prefix(url_key(SITE)), 40, 30)
        assert len(chosen) == 40
        assert all(len(captures) == 30 for captures in chosen)

    def test_pages_of_the_last_sweep_are_looked_for(self, view):
        view.add({f"{SITE}/old/{n}": f"old {n}" for n in range(90)}).add(
            {f"{SITE}/new/{n}": f"n {n}" for n in range(30)}
        )
        chosen = sample_site(view, host_prefix(url_key(SITE)), 20, 2)
        assert sum(captures[-1].sweep == 2 for captures in chosen) >= 15


class TestCopies:
    def test_heads(self):
        assert _heads(b"e,x)/latest/a/b.html", b"e,x)/v1/a/b.html") == (b"e,x)/latest/", b"e,x)/v1/")
        assert _heads(b"e,x)/a/b.html", b"e,x)/a/c.html")[0] == _heads(b"e,x)/a/b.html", b"e,x)/a/c.html")[1]
        assert _heads(b"e,x)/a/", b"e,y)/b/") == (b"e,x)/a/", b"e,x)/a/")

    def test_like_named_pages_of_another_tree_are_no_copies(self, view, text):
        names = ["api", "faq", "intro", "setup", "usage"]
        one = {f"{SITE}/one/{name}.html": text(name + "one") for name in names}
        two = {f"{SITE}/two/{name}.html": text(name + "two") for name in names}
        old = f"{SITE}/one/config.html"
        view.add({**one, **two, old: text("config")}).add({**one, **two, f"{SITE}/two/config.html": text("config")})
        copies = Copies(view, BatchLru(view.documents, 99), SweepIndex(view).latest)
        assert copies.share(url_key(old), url_key(f"{SITE}/two/config.html"), 1, 2) == 0.0

    def test_old_versions_beside_hide_no_copy(self, view, text):
        """Neighbours are the pages beside the old one, not those of other versions, though these come first."""
        names = ["api", "faq", "intro", "setup", "usage", "tour", "news", "tips"]
        tree = {name: text(name) for name in names}
        versions = {f"{SITE}/v{n}/guide/{name}.html": page for n in range(1, 20) for name, page in tree.items()}
        here = {f"{SITE}/guide/{name}.html": page for name, page in tree.items()}
        old, copy = f"{SITE}/guide/config.html", f"{SITE}/v60/guide/config.html"
        frozen = {f"{SITE}/v60/guide/{name}.html": page for name, page in tree.items()}
        view.add({**versions, **here, old: text("config")})
        view.add({**versions, **here, **frozen, copy: text("config")})
        copies = Copies(view, BatchLru(view.documents, 99), SweepIndex(view).latest)
        assert copies.share(url_key(old), url_key(copy), 1, 2) == 1.0

    def test_neighbours_that_moved_later_tell_a_copy_too(self, view, text):
        names = ["api", "faq", "intro", "setup", "usage"]
        here = {f"{SITE}/latest/{name}.html": text(name) for name in names}
        old, copy = f"{SITE}/latest/config.html", f"{SITE}/v1/config.html"
        frozen = {url.replace("latest", "v1"): page for url, page in here.items()}
        view.add({**here, old: text("config")}).add({**here, **frozen, copy: text("config")})
        view.add({**frozen, copy: text("config"), **{url.replace("latest", "main"): p for url, p in here.items()}})
        copies = Copies(view, BatchLru(view.documents, 99), SweepIndex(view).latest)
        assert copies.share(url_key(old), url_key(copy), 1, 2) == 1.0

    def test_soft_errors_need_unrelated_names(self, view):
        view.add({f"{SITE}/v{n}/guide/": "the same page in all versions" for n in range(9)})
        view.add({f"{SITE}/{name}": "the page was not found" for name in ("a1", "b2", "c3", "d4", "e5")})
        soft = SoftErrors(view, 5)
        captures = [c for key in view.urls_under(host_prefix(url_key(SITE)), 99) for c in view.captures(key)]
        pages = {c.url: (c.document, c.key) for c in captures}
        assert not soft.suspected(*pages[f"{SITE}/v1/guide/"])
        assert soft.suspected(*pages[f"{SITE}/a1"])


def test_pages_above() -> None:
    found = above(b"e,x)/doc/forms/fields.html")
    assert b"e,x)/doc/forms.html" in found
    assert b"e,x)/doc/forms/" in found
    assert b"e,x)/doc/" in found
    assert above(b"e,x)/") == []


@pytest.mark.parametrize("time", [None, 10**30, -(10**30), 0, 1_700_000_000_123])
def test_iso(time):
    assert iso(time) is None or iso(time).endswith("Z")


def test_sampled_sites_are_bounded(view):
    assert sample_site(view, b"e,x)", 10, 1) == []
    assert np.isfinite(Site([], Texts(view, Sketcher(view.scheme)), 1).idf(np.arange(3, dtype=np.uint32))).all()


def test_values_are_read_together_once_and_the_last_are_kept() -> None:
    read: list[list[int]] = []

    def squares(keys: list[int]) -> list[int]:
        read.append(keys)
        return [key * key for key in keys]

    kept = BatchLru(squares, 3)
    assert kept.many([2, 3, 2]) == [4, 9, 4]
    assert kept(3) == 9
    assert kept.many([3, 4]) == [9, 16]
    assert kept.many(range(6)) == [0, 1, 4, 9, 16, 25]  # more than are kept
    assert kept(5) == 25
    assert kept(1) == 1
    assert read == [[2, 3], [4], [0, 1, 5], [1]]
