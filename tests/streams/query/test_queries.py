"""Queries: what is this a copy of, what belongs together, what was here before; with figures of plain sets."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from state import sweeps
from state.changes import Changes
from state.families import Family
from state.store import Store
from state.view import View
from streams import query
from streams.errors import InputError
from streams.query import Cluster, clusters, clusters_by_policy, members, resolve, similar
from streams.sketch.sketcher import Sketcher
from streams.urls import url_key
from tests.samples import NOW, begin_cancel, missing, page, redirect, settings, take, variant, words

# Short texts are exact, and so many bands of one row miss no pair.
SETTINGS = settings({"scheme": {"bands": 64, "rows": 1, "sample_max": 256}, "policy": {"threshold": 0.5}})
SKETCHER = Sketcher(SETTINGS.scheme)
RNG = random.Random(21)

BASE = words(RNG, 100)
NEAR = variant(RNG, BASE, 3)  # about 0.78 of BASE
FAR = variant(RNG, NEAR, 4)  # about 0.7 of NEAR, 0.56 of BASE
PART = BASE[:40]  # held by BASE, too short to resemble it
LONE = words(RNG, 100)
TEXTS = {"base": BASE, "near": NEAR, "far": FAR, "part": PART, "lone": LONE}
IDS = {name: SKETCHER.sketch(" ".join(text)).document for name, text in TEXTS.items()}
URL = "https://a.org/{}"


def shingles(name: str) -> set[tuple[str, ...]]:
    text = TEXTS[name]
    return {tuple(text[i : i + 4]) for i in range(len(text) - 3)}


def resemblance(a: str, b: str) -> float:
    return len(shingles(a) & shingles(b)) / len(shingles(a) | shingles(b))


def containment(a: str, b: str) -> float:
    return len(shingles(a) & shingles(b)) / len(shingles(a))


def text_of(name: str) -> str:
    return " ".join(TEXTS[name])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Sweep one: base, near, far, part, lone and a copy of lone; sweep two: base became lone, near is gone."""
    folder = tmp_path_factory.mktemp("query")
    names = ["base", "near", "far", "part", "lone"]
    first = [page(URL.format(name), text_of(name), NOW + n, title=name.title()) for n, name in enumerate(names)]
    first.append(page("https://mirror.net/lone", text_of("lone"), NOW + 7))
    second = [
        page(URL.format("base"), text_of("lone"), NOW + 100),
        redirect(URL.format("near"), URL.format("base"), NOW + 101),
        page(URL.format("far"), text_of("far"), NOW + 102),
        missing(URL.format("part"), NOW + 103),
    ]
    with Store(folder / "state") as opened:
        take(opened, folder / "1.jsonl", first, "one", SETTINGS)
        take(opened, folder / "2.jsonl", second, "two", SETTINGS)
        yield opened


@pytest.fixture
def view(store: Store) -> View:
    return View(store)


def test_similar_documents_with_figures_of_plain_sets(view: View) -> None:
    found = {match.document: match for match in similar(view, SETTINGS, SKETCHER.sketch(text_of("base")))}
    assert set(found) == {IDS[name].hex() for name in ("base", "near", "far", "part")}
    for name in ("base", "near", "far", "part"):
        match = found[IDS[name].hex()]
        assert match.resemblance == pytest.approx(resemblance("base", name))
        assert match.containment == pytest.approx(containment("base", name))
        assert match.contained == pytest.approx(containment(name, "base"))
        assert match.exact
        assert (match.resemblance_error, match.containment_error, match.contained_error) == (0, 0, 0)
        assert match.title == name.title()
        assert match.cluster == view.root(IDS[name]).hex()
    assert found[IDS["base"].hex()].urls == [URL.format("base")]
    assert (found[IDS["far"].hex()].first_seen, found[IDS["far"].hex()].last_seen) == (NOW + 2, NOW + 102)


def test_similar_documents_come_most_alike_first_and_not_more_than_asked(view: View) -> None:
    matches = similar(view, SETTINGS, SKETCHER.sketch(text_of("base")))
    assert [m.resemblance for m in matches] == sorted((m.resemblance for m in matches), reverse=True)
    assert similar(view, SETTINGS, SKETCHER.sketch(text_of("base")), limit=2) == matches[:2]


def test_a_document_that_is_not_stored_is_asked_for_in_the_same_way(view: View) -> None:
    asked = SKETCHER.sketch(text_of("lone") + " and a little more than that")
    (match,) = similar(view, SETTINGS, asked)
    assert match.document == IDS["lone"].hex()
    assert set(match.urls) == {URL.format("lone"), URL.format("base"), "https://mirror.net/lone"}
    assert match.contained == 1.0
    assert similar(view, SETTINGS, SKETCHER.sketch("nothing like any of the pages here at all")) == []
    assert similar(view, SETTINGS, SKETCHER.sketch("")) == []


def test_a_short_page_is_found_in_a_long_one_whose_other_words_are_on_every_page(tmp_path: Path) -> None:
    few = settings({"limits": {"candidates_max": 2}})
    rng = random.Random(8)
    menu, foot, short = words(rng, 60), words(rng, 60), words(rng, 24)
    pages = [page(URL.format(n), " ".join([*words(rng, 300), *(menu, foot)[n % 2]]), NOW + n) for n in range(40)]
    pages.append(page(URL.format("short"), " ".join(short), NOW))
    asked = Sketcher(few.scheme).sketch(" ".join([*menu, *short, *foot]))
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", pages, "one", few)
        (match,) = similar(View(store), few, asked)
    assert match.urls == [URL.format("short")]
    assert match.contained == 1.0


def test_of_a_document_at_many_urls_those_that_had_it_first_and_got_it_last_are_listed(tmp_path: Path) -> None:
    few = msgspec.structs.replace(SETTINGS, limits=msgspec.structs.replace(SETTINGS.limits, match_urls_max=5))
    order = random.Random(3).sample(range(40), 40)
    pages = [page(URL.format(f"{n:02}"), text_of("lone"), NOW + 1000 * at) for at, n in enumerate(order)]
    urls = [each["url"] for each in pages]
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", pages[:30], "one", few)
        take(store, tmp_path / "2.jsonl", pages[30:], "two", few)
        (match,) = similar(View(store), few, SKETCHER.sketch(text_of("lone")))
        assert match.urls == [*urls[:3], *urls[-2:]]
        assert (match.url_count, match.first_seen, match.last_seen) == (40, NOW, NOW + 39_000)
        (member,) = members(View(store), query.cluster(View(store), IDS["lone"], 5), IDS["lone"], 5)
        assert member.urls == sorted([*urls[:3], *urls[-2:]])
        assert (member.first_seen, member.last_seen) == (NOW, NOW + 39_000)
        # Of a sweep that is being cancelled nothing is told, whatever stands at the ends.
        being_cancelled(store, "one")
        (match,) = similar(View(store), few, SKETCHER.sketch(text_of("lone")))
        assert (match.urls, match.url_count) == ([*urls[30:33], *urls[38:]], 10)
        assert (match.first_seen, match.last_seen) == (NOW + 30_000, NOW + 39_000)


def test_versions_of_a_url(view: View) -> None:
    history = query.captures(view, URL.format("base"))
    assert [(v.sweep, v.status, v.document, v.resemblance) for v in history] == [
        ("one", 200, IDS["base"].hex(), None),
        ("two", 200, IDS["lone"].hex(), 0.0),
    ]
    assert [v.resemblance for v in query.captures(view, URL.format("far"))] == [None, 1.0]
    assert [(v.status, v.redirect) for v in query.captures(view, URL.format("near"))] == [
        (200, None),
        (301, URL.format("base")),
    ]
    assert query.captures(view, "https://a.org/never") == []


def test_a_page_of_which_one_word_changed_is_no_unchanged_one(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = [words(rng, 6_000)]
    for _ in range(5):
        texts.append(variant(rng, texts[-1]))
    texts.append(texts[-1])
    with Store(tmp_path / "state") as store:
        for n, text in enumerate(texts):
            held = page(URL.format("long"), " ".join(text), NOW + n)
            take(store, tmp_path / f"{n}.jsonl", [held], f"sweep {n}")
        history = query.captures(View(store), URL.format("long"))
    assert [version.resemblance == 1.0 for version in history] == [False] * 6 + [True]
    assert all(0.98 < version.resemblance <= 1.0 for version in history if version.resemblance is not None)


def test_a_text_of_the_same_shingles_is_another_document(tmp_path: Path) -> None:
    texts = ["a b c d " * 2, "a b c d " * 3]
    with Store(tmp_path / "state") as store:
        for n, text in enumerate(texts):
            take(store, tmp_path / f"{n}.jsonl", [page(URL.format("x"), text, NOW + n)], f"sweep {n}")
        first, second = query.captures(View(store), URL.format("x"))
    assert first.document != second.document
    assert second.resemblance is not None
    assert second.resemblance < 1.0


def test_versions_come_in_the_order_of_sweeps(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", [page(URL.format("x"), text_of("base"), NOW + 100)], "later", SETTINGS)
        take(store, tmp_path / "2.jsonl", [page(URL.format("x"), text_of("lone"), NOW)], "earlier", SETTINGS)
        view = View(store)
        assert [version.sweep for version in query.captures(view, URL.format("x"))] == ["later", "earlier"]
        assert resolve(view, URL.format("x")) == IDS["lone"], "what came last is what is there now"


def test_a_view_tells_nothing_of_a_sweep_that_is_newer_than_it(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", [page(URL.format("x"), text_of("base"), NOW)], "one", SETTINGS)
        view = View(store)
        take(store, tmp_path / "2.jsonl", [page(URL.format("x"), text_of("lone"), NOW + 1)], "two", SETTINGS)
        assert [version.sweep for version in query.captures(view, URL.format("x"))] == ["one"]
        view.refresh()
        assert [version.sweep for version in query.captures(view, URL.format("x"))] == ["one", "two"]


def test_what_a_url_or_the_beginning_of_an_id_names(view: View) -> None:
    assert resolve(view, URL.format("base")) == IDS["lone"]
    assert resolve(view, URL.format("near")) == IDS["near"], "the last one that it held"
    for digits in (32, 31, 20, 11, 10):
        assert resolve(view, IDS["far"].hex()[:digits]) == IDS["far"]
        assert resolve(view, IDS["far"].hex()[:digits].upper()) == IDS["far"]


def test_an_odd_digit_counts(view: View) -> None:
    known = IDS["far"].hex()
    with pytest.raises(InputError, match="no document has"):
        resolve(view, known[:10] + ("0" if known[10] != "0" else "1"))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("https://a.org/never", "no capture of"),
        ("beef", "neither a URL nor a document id"),
        ("not hex at all", "neither a URL nor a document id"),
        ("ab cd ef 01 23", "neither a URL nor a document id"),
        ("www.shop.example/x", "neither a URL nor a document id"),
        ("ff" * 16, "no document has an id that begins with"),
        ("0" * 9, "neither a URL nor a document id"),
        ("ff" * 17, "neither a URL nor a document id"),
    ],
)
def test_what_names_nothing_is_refused(view: View, named: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        resolve(view, named)
    assert refused.value.hint


def ids(cluster: Cluster) -> set[str]:
    return set(cluster.documents)


def names(*wanted: str) -> set[str]:
    return {IDS[name].hex() for name in wanted}


def test_a_cluster(view: View) -> None:
    found = query.cluster(view, IDS["far"], 100)
    assert ids(found) == names("base", "near", "far")
    assert found.cluster == min(names("base", "near", "far"))
    assert found.urls == sorted(URL.format(name) for name in ("base", "near", "far"))
    assert (found.document_count, found.url_count) == (3, 3)
    shown = query.cluster(view, IDS["far"], 2)
    assert (len(shown.documents), len(shown.urls), shown.document_count, shown.url_count) == (2, 2, 3, 3)
    assert ids(query.cluster(view, IDS["part"], 100)) == names("part")


def test_clusters_biggest_first(view: View) -> None:
    found = list(clusters(view, min_size=1))
    assert sorted(sorted(ids(c)) for c in found[:2]) == sorted(
        sorted(group) for group in (names("base", "near", "far"), names("lone"))
    )
    assert ids(found[2]) == names("part")
    assert len(list(clusters(view, min_size=2))) == 2
    assert list(clusters(view, min_size=4)) == []
    sizes = [max(c.document_count, c.url_count) for c in found]
    assert sizes == sorted(sizes, reverse=True)


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Base and near, at two URLs each (four URLs); lone at five, two of them near's; far at one URL's two schemes."""
    folder = tmp_path_factory.mktemp("spread")
    places = {"base": "ab", "near": "cd", "lone": "efg"}
    first = [page(URL.format(url), text_of(name), NOW) for name, urls in places.items() for url in urls]
    second = [page(URL.format(url), text_of("lone"), NOW + 100) for url in "cd"]
    schemes = [
        page("http://b.org/x", text_of("part"), NOW),
        page("https://b.org/x", text_of("part") + " x", NOW + 100),
    ]
    with Store(folder / "state") as opened:
        take(opened, folder / "1.jsonl", [*first, schemes[0]], "one", SETTINGS)
        take(opened, folder / "2.jsonl", [*second, schemes[1]], "two", SETTINGS)
        yield View(opened)


@pytest.mark.parametrize(
    "listed",
    [clusters, partial(clusters_by_policy, threshold=0.5, containment=False, sweep=None)],
    ids=["of the ingest", "by a policy"],
)
def test_the_size_of_a_cluster_is_the_larger_of_its_two_counts(
    spread: View, listed: Callable[..., Iterator[Cluster]]
) -> None:
    found = list(listed(spread, min_size=1))
    assert [(c.document_count, c.url_count) for c in found] == [(1, 5), (2, 4), (2, 1)]
    assert ids(found[1]) == names("base", "near")
    assert [len(c.urls) for c in found] == [5, 4, 1]
    assert [list(listed(spread, min_size=size)) for size in (2, 3, 5, 6)] == [found, found[:2], found[:1], []]


def test_http_and_https_of_a_page_are_one_url_as_it_was_written_last(spread: View) -> None:
    found = query.cluster(spread, resolve(spread, "https://b.org/x"), 100)
    assert (found.document_count, found.url_count, found.urls) == (2, 1, ["https://b.org/x"])


def test_lists_of_a_cluster_end_and_its_counts_do_not(spread: View) -> None:
    found = query.cluster(spread, IDS["lone"], 2)
    assert (len(found.urls), found.url_count) == (2, 5)
    of_two = query.cluster_by_policy(spread, IDS["lone"], threshold=0.5, containment=False, sweep=2, limit=1)
    assert of_two == Cluster(
        cluster=IDS["lone"].hex(),
        documents=[IDS["lone"].hex()],
        urls=[URL.format("c")],
        document_count=1,
        url_count=2,
    )
    assert query.cluster_by_policy(spread, IDS["base"], threshold=0.5, containment=False, sweep=2, limit=1) is None


def test_members_under_a_document_that_is_no_root_make_no_cluster(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as opened:
        pages = [page(URL.format(name), text_of(name), NOW) for name in ("base", "near", "far")]
        take(opened, tmp_path / "1.jsonl", pages, "one", SETTINGS)
        view = View(opened)
        (before,) = clusters(view)
        root, node, other = map(bytes.fromhex, before.documents)
        changes = Changes()
        changes.put(Family.MEMBERS, node + other)
        opened.write(changes)
        assert view.root(node) == root
        assert list(clusters(view)) == [before]


@pytest.mark.parametrize(
    ("threshold", "with_containment", "groups"),
    [
        (0.5, False, [("base", "near", "far")]),
        (0.74, False, [("base", "near")]),
        (0.95, False, []),
        (0.74, True, [("base", "near", "far")]),
    ],
)
def test_other_policies_from_the_same_edges(
    view: View, threshold: float, with_containment: bool, groups: list[tuple[str, ...]]
) -> None:
    found = clusters_by_policy(view, threshold=threshold, containment=with_containment, sweep=None, min_size=2)
    assert resemblance("base", "near") > 0.74 > resemblance("near", "far") > 0.5
    assert containment("near", "far") > 0.74
    assert sorted(sorted(ids(c)) for c in found if c.document_count > 1) == sorted(sorted(names(*g)) for g in groups)


def test_the_policy_of_the_ingest_gives_its_clusters(view: View) -> None:
    again = clusters_by_policy(view, threshold=0.5, containment=False, sweep=None, min_size=1)
    assert {frozenset(c.documents): tuple(c.urls) for c in again} == {
        frozenset(c.documents): tuple(c.urls) for c in clusters(view, min_size=1)
    }


def test_clusters_of_one_sweep(view: View) -> None:
    found = list(clusters_by_policy(view, threshold=0.5, containment=False, sweep=2, min_size=1))
    assert {frozenset(c.documents): c.urls for c in found} == {
        frozenset(names("lone")): [URL.format("base")],
        frozenset(names("far")): [URL.format("far")],
    }


def being_cancelled(store: Store, name: str) -> None:
    """Leave a sweep as a cancellation does that was stopped at its beginning."""
    sweep = sweeps.named(store, name)
    assert sweep
    begin_cancel(store, sweep)


def test_a_sweep_that_is_being_cancelled_is_in_no_answer(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", [page(URL.format("base"), text_of("base"), NOW)], "one", SETTINGS)
        later = [
            page(URL.format("near"), text_of("near"), NOW + 1),
            page(URL.format("lone"), text_of("lone"), NOW + 2),
        ]
        take(store, tmp_path / "2.jsonl", later, "two", SETTINGS)
        before = [msgspec.structs.asdict(c) for c in clusters(View(store), min_size=1)]
        assert len(before) == 2
        being_cancelled(store, "two")
        view = View(store)
        assert [m.document for m in similar(view, SETTINGS, SKETCHER.sketch(text_of("base")))] == [IDS["base"].hex()]
        assert [(ids(c), c.document_count, c.urls) for c in clusters(view, min_size=1)] == [
            (names("base"), 1, [URL.format("base")])
        ]
        by_policy = clusters_by_policy(view, threshold=0.5, containment=False, sweep=None, min_size=1)
        assert [(ids(c), c.document_count) for c in by_policy] == [(names("base"), 1)]
        assert ids(query.cluster(view, IDS["base"], 100)) == names("base")
        assert query.captures(view, URL.format("near")) == []
        with pytest.raises(InputError):
            resolve(view, URL.format("near"))
        assert view.captures(url_key(URL.format("near"))) == []
