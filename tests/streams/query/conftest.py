"""A small state with known resemblances between its documents."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from state import sweeps
from state.store import Store
from state.view import View
from streams.query import Cluster
from streams.sketch.sketcher import Sketcher
from tests.samples import NOW, begin_cancel, missing, page, redirect, settings, take, variant, words

# Figures of short texts are exact, and so many bands of one row miss no pair.
SETTINGS = settings({"scheme": {"bands": 64, "rows": 1, "sample_max": 256}, "policy": {"threshold": 0.5}})
SKETCHER = Sketcher(SETTINGS.scheme)
RNG = random.Random(21)

BASE = words(RNG, 100)
NEAR = variant(RNG, BASE, 3)  # about 0.78 of BASE
FAR = variant(RNG, NEAR, 4)  # about 0.7 of NEAR, 0.56 of BASE
PART = BASE[:40]  # contained in BASE, too short to resemble it
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


@pytest.fixture(scope="module")
def spread(tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """Base and near, at two URLs each (four URLs); lone at five, two of them near's; far at one URL's two schemes."""
    folder = tmp_path_factory.mktemp("spread")
    urls_by_name = {"base": "ab", "near": "cd", "lone": "efg"}
    first = [page(URL.format(url), text_of(name), NOW) for name, urls in urls_by_name.items() for url in urls]
    second = [page(URL.format(url), text_of("lone"), NOW + 100) for url in "cd"]
    schemes = [
        page("http://b.org/x", text_of("part"), NOW),
        page("https://b.org/x", text_of("part") + " x", NOW + 100),
    ]
    with Store(folder / "state") as opened:
        take(opened, folder / "1.jsonl", [*first, schemes[0]], "one", SETTINGS)
        take(opened, folder / "2.jsonl", [*second, schemes[1]], "two", SETTINGS)
        yield View(opened)


def ids(cluster: Cluster) -> set[str]:
    return set(cluster.documents)


def names(*selected: str) -> set[str]:
    return {IDS[name].hex() for name in selected}


def start_cancelling(store: Store, name: str) -> None:
    """Put a sweep in the state of a cancellation that was interrupted at its beginning."""
    sweep = sweeps.named(store, name)
    assert sweep
    begin_cancel(store, sweep)
