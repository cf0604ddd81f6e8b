"""The synthetic corpus: the same slice is the same bytes, and the statistics are those asked for."""

from __future__ import annotations

import itertools
from collections import Counter

import msgspec
import numpy as np
import pytest

from bench.generator import FIRST_FETCH, SWEEP_INTERVAL, Shape, lines, pages, pages_at, sites_of, texts
from streams.readers.page_line import PageLine

DOCUMENTS = 3000


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return texts(Shape(), 0, DOCUMENTS)


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + 4]) for i in range(len(words) - 3)}


def resemblance(a: str, b: str) -> float:
    left, right = shingles(a), shingles(b)
    return len(left & right) / len(left | right)


def test_any_slice_can_be_made_by_itself(corpus: list[str]) -> None:
    assert texts(Shape(), 700, 1000) == corpus[700:1000]
    assert texts(Shape(), 2999, 3000) == corpus[2999:]
    assert texts(Shape(seed=2), 0, 10) != corpus[:10]
    some = [page.text for page in pages_at(Shape(), np.array([5, 2000], np.uint64))]
    assert some == [corpus[5], corpus[2000]]


def test_lengths_are_spread_around_the_median(corpus: list[str]) -> None:
    counts = sorted(len(text.split()) for text in corpus)
    assert 280 < counts[len(counts) // 2] < 440  # 300 of the text and some 35 of the template
    assert counts[len(counts) // 20] < 150
    assert counts[-len(counts) // 20] > 800


def test_words_follow_a_power_law(corpus: list[str]) -> None:
    counts = Counter(word.strip(".,") for text in corpus for word in text.lower().split())
    ranked = [count for _, count in counts.most_common()]
    assert 5 < ranked[0] / ranked[20] < 40
    assert sum(count == 1 for count in ranked) > 0.2 * len(ranked)  # rare words never end


def test_some_pages_are_copies_and_some_nearly(corpus: list[str]) -> None:
    assert 0.02 < 1 - len(set(corpus)) / DOCUMENTS < 0.1
    crowd = texts(Shape(crowd=True), 0, 200)
    alike = [resemblance(a, b) for a, b in itertools.pairwise(crowd)]
    assert min(alike) > 0.6
    assert len(set(crowd)) == 200
    apart = texts(Shape(exact_share=0.0, near_share=0.0), 0, 200)
    assert max(resemblance(a, b) for a, b in itertools.pairwise(apart)) < 0.6


def test_a_second_sweep_is_the_same_but_for_time() -> None:
    first, second = (list(pages(Shape(), 0, 300, sweep=n)) for n in (0, 1))
    assert [(p.url, p.text) for p in first] == [(p.url, p.text) for p in second]
    assert {b.time - a.time for a, b in zip(first, second, strict=True)} == {SWEEP_INTERVAL}
    assert first[0].time == FIRST_FETCH
    changed = list(pages(Shape(changed_share=0.3), 0, 300, sweep=1))
    share = sum(a.text != b.text for a, b in zip(first, changed, strict=True)) / 300
    assert 0.2 < share < 0.4


def test_urls_are_distinct_and_sites_uneven() -> None:
    made = list(pages(Shape(), 0, DOCUMENTS))
    assert len({page.url for page in made}) == DOCUMENTS
    sites = Counter(sites_of(Shape(), 0, DOCUMENTS).tolist())
    assert len(sites) == len({page.url.split("/")[2] for page in made})
    assert max(sites.values()) > 3 * DOCUMENTS / len(sites)


def test_lines_are_what_the_reader_takes() -> None:
    decode = msgspec.json.Decoder(PageLine).decode
    plain, marked = (decode(next(lines(pages(Shape(), 7, 8, html=html)))) for html in (False, True))
    assert plain.url == marked.url
    assert plain.text
    assert marked.html is not None
    assert marked.html.count("<") > 600
