"""Similar documents, compared with the figures of plain sets."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest

from state.store import Store
from state.view import View
from streams import query
from streams.query import find_similar, members
from streams.sketch.sketcher import Sketcher
from tests.samples import NOW, page, settings, take, words
from tests.streams.query.conftest import (
    IDS,
    SETTINGS,
    SKETCHER,
    URL,
    containment,
    resemblance,
    start_cancelling,
    text_of,
)


def test_figures_are_those_of_plain_sets(view: View) -> None:
    results = {match.document: match for match in find_similar(view, SETTINGS, SKETCHER.sketch(text_of("base")))}
    assert set(results) == {IDS[name].hex() for name in ("base", "near", "far", "part")}
    for name in ("base", "near", "far", "part"):
        match = results[IDS[name].hex()]
        assert match.resemblance == pytest.approx(resemblance("base", name))
        assert match.containment == pytest.approx(containment("base", name))
        assert match.contained == pytest.approx(containment(name, "base"))
        assert match.exact
        assert (match.resemblance_error, match.containment_error, match.contained_error) == (0, 0, 0)
        assert match.title == name.title()
        assert match.cluster == view.root(IDS[name]).hex()
    assert results[IDS["base"].hex()].urls == [URL.format("base")]
    assert (results[IDS["far"].hex()].first_seen, results[IDS["far"].hex()].last_seen) == (NOW + 2, NOW + 102)


def test_the_highest_resemblance_comes_first_and_limit_bounds_the_list(view: View) -> None:
    matches = find_similar(view, SETTINGS, SKETCHER.sketch(text_of("base")))
    assert [m.resemblance for m in matches] == sorted((m.resemblance for m in matches), reverse=True)
    assert find_similar(view, SETTINGS, SKETCHER.sketch(text_of("base")), limit=2) == matches[:2]


def test_a_text_that_is_not_stored_can_be_queried(view: View) -> None:
    sketch = SKETCHER.sketch(text_of("lone") + " and a little more than that")
    (match,) = find_similar(view, SETTINGS, sketch)
    assert match.document == IDS["lone"].hex()
    assert set(match.urls) == {URL.format("lone"), URL.format("base"), "https://mirror.net/lone"}
    assert match.contained == 1.0
    assert find_similar(view, SETTINGS, SKETCHER.sketch("nothing like any of the pages here at all")) == []
    assert find_similar(view, SETTINGS, SKETCHER.sketch("")) == []


def test_a_short_page_is_found_in_a_long_page_of_common_words(tmp_path: Path) -> None:
    few = settings({"limits": {"candidates_max": 2}})
    rng = random.Random(8)
    menu, foot, short = words(rng, 60), words(rng, 60), words(rng, 24)
    pages = [page(URL.format(n), " ".join([*words(rng, 300), *(menu, foot)[n % 2]]), NOW + n) for n in range(40)]
    pages.append(page(URL.format("short"), " ".join(short), NOW))
    sketch = Sketcher(few.scheme).sketch(" ".join([*menu, *short, *foot]))
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", pages, "one", few)
        (match,) = find_similar(View(store), few, sketch)
    assert match.urls == [URL.format("short")]
    assert match.contained == 1.0


def test_many_urls_are_cut_to_the_first_and_the_last(tmp_path: Path) -> None:
    few = msgspec.structs.replace(SETTINGS, limits=msgspec.structs.replace(SETTINGS.limits, match_urls_max=5))
    order = random.Random(3).sample(range(40), 40)
    pages = [page(URL.format(f"{n:02}"), text_of("lone"), NOW + 1000 * at) for at, n in enumerate(order)]
    urls = [fields["url"] for fields in pages]
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", pages[:30], "one", few)
        take(store, tmp_path / "2.jsonl", pages[30:], "two", few)
        (match,) = find_similar(View(store), few, SKETCHER.sketch(text_of("lone")))
        assert match.urls == [*urls[:3], *urls[-2:]]
        assert (match.url_count, match.first_seen, match.last_seen) == (40, NOW, NOW + 39_000)
        (member,) = members(View(store), query.cluster(View(store), IDS["lone"], 5), IDS["lone"], 5)
        assert member.urls == sorted([*urls[:3], *urls[-2:]])
        assert (member.first_seen, member.last_seen) == (NOW, NOW + 39_000)
        # URLs of a sweep that is being cancelled are not shown, even if they are the first or the last.
        start_cancelling(store, "one")
        (match,) = find_similar(View(store), few, SKETCHER.sketch(text_of("lone")))
        assert (match.urls, match.url_count) == ([*urls[30:33], *urls[38:]], 10)
        assert (match.first_seen, match.last_seen) == (NOW + 30_000, NOW + 39_000)
