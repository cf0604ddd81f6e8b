from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.scheme import Scheme
from streams.sketch import index_terms
from streams.sketch.sketcher import Sketcher
from streams.urls import path_words, url_key

URL = "https://docs.example.org/guide/parent_services.html"


@pytest.fixture(scope="module")
def sketcher() -> Sketcher:
    return Sketcher(Scheme())


def word_entries(url: str, text: str, sketcher: Sketcher) -> bytes:
    batch = sketcher.sketch_batch([text], index_terms.TEXT_WORDS_MAX)
    return index_terms.word_entries(
        url_key(url), url, batch.indexed_words[0, : batch.indexed_words_per_text[0]], sketcher
    )


def words_of(entries: bytes) -> set[bytes]:
    return {entries[at + 4 : at + 8] for at in range(0, len(entries), 8)}


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (URL, "parentservices"),
        ("https://a.example/x/ParentServices/", "parentservices"),
        ("https://a.example/x/parent-services/index.html?a=/b.html#/c", "parentservices"),
        ("https://a.example/", ""),
        ("https://a.example", ""),
        ("https://a.example/2019/05/03/release-1.6.3.html", "release163"),
        ("https://a.example/Old%20%C3%89tude.html", "oldétude"),
        ("https://a.example/Old Étude.html", "oldétude"),  # the same URL
    ],
)
def test_page_name(url: str, name: str) -> None:
    assert index_terms.page_name(url) == name


def test_hosts_of_one_domain_are_one_site() -> None:
    assert index_terms.site_hash(url_key("https://docs.example.co.uk/a")) == index_terms.site_hash(
        url_key("http://example.co.uk/b")
    )
    assert index_terms.site_hash(url_key("https://a.example.org/")) != index_terms.site_hash(
        url_key("https://a.example.net/")
    )


def test_index_words_is_bounded_and_coordinated(sketcher: Sketcher) -> None:
    text = " ".join(f"word{n}" for n in range(4000))
    entries = word_entries(URL, text, sketcher)
    assert len(entries) == 8 * len(words_of(entries))
    assert len(entries) <= 8 * index_terms.WORDS_MAX
    assert entries == word_entries(URL, text, sketcher)
    near = word_entries(URL, text + " a few more words", sketcher)
    assert len(words_of(entries) & words_of(near)) >= len(words_of(entries)) - 4


def test_words_of_the_subject_come_before_grammar(sketcher: Sketcher) -> None:
    grammar = [f"g{n}" for n in range(10)] * 50
    subject = [f"subject{n}" for n in range(index_terms.TEXT_WORDS_MAX)] * 4
    words, counts = sketcher.words_and_counts(" ".join(grammar + subject))
    chosen = set(index_terms.choose_text_words(words, counts).tolist())
    about = set(sketcher.words_and_counts(" ".join(subject))[0].tolist())
    assert len(chosen & about) >= 12


def test_old_path_words_find_a_new_text(sketcher: Sketcher) -> None:
    hashes = index_terms.path_terms(URL, sketcher)
    assert set(sketcher.words_and_counts("parent services")[0].tolist()) <= set(hashes)
    assert index_terms.page_name_hash("parentservices") in hashes


@given(st.text(max_size=200), st.text(max_size=60))
def test_any_page_is_indexed_within_limits(text: str, path: str) -> None:
    sketcher = Sketcher(Scheme())
    url = "https://example.org/" + path
    try:
        url_key(url)
    except ValueError:
        return
    entries = word_entries(url, text, sketcher)
    assert len(entries) % 8 == 0
    assert len(entries) <= 8 * index_terms.WORDS_MAX


def test_samples_keep_the_rarest_of_the_modulus(sketcher: Sketcher) -> None:
    long = sketcher.sketch(" ".join(f"w{n * n}" for n in range(5000)))
    chosen = index_terms.most_divisible_shingles(long)
    assert len(chosen) == index_terms.SAMPLES_MAX
    assert set(chosen) <= set(long.sample.tolist())
    power = [value & -value for value in chosen]
    assert power == sorted(power, reverse=True)
    entries = index_terms.sample_entries(long)
    assert np.frombuffer(entries, dtype=">u4").tolist() == chosen


@given(st.lists(st.sampled_from(["the", "crawl", "near", "duplicate", "naïve", "漢字", "x1"]), max_size=400))
def test_the_sketcher_chooses_the_same_words(tokens: list[str]) -> None:
    sketcher = Sketcher(Scheme())
    text = " ".join(tokens)
    batch = sketcher.sketch_batch([text], index_terms.TEXT_WORDS_MAX)
    expected = index_terms.choose_text_words(*sketcher.words_and_counts(text))
    assert batch.indexed_words[0, : batch.indexed_words_per_text[0]].tolist() == expected.tolist()


@given(st.lists(st.text("abcdef ", max_size=900), max_size=4))
def test_a_batch_indexes_the_same_samples(texts: list[str]) -> None:
    batch = Sketcher(Scheme()).sketch_batch(texts)
    expected = [index_terms.sample_entries(batch.sketch(i)) for i in range(len(texts))]
    assert index_terms.sample_entries_of_batch(batch) == expected


def test_many_pages_are_indexed_as_each_is(sketcher: Sketcher) -> None:
    """Words of paths come from one call of the kernel and from a cache; a page's come from neither."""
    urls = [f"https://docs{n % 3}.example.org/guide/part{n}/chapter-{n % 5}/{n:x}f.html?q={n}" for n in range(40)]
    urls += [
        "https://a.example/",
        "https://a.example/\u4e2d\u6587/\u00c9t\u00e9",
        "https://b.example/a%2Fb/x_y/HTMLParser",
    ]
    texts = [" ".join(f"w{n}x{i}" for i in range(30 * n + 1)) for n in range(len(urls))]
    batch = sketcher.sketch_batch(texts, index_terms.TEXT_WORDS_MAX)
    counts = np.minimum(batch.indexed_words_per_text, index_terms.text_word_limits(batch.shingles))
    pages = [(url_key(url), url) for url in urls]
    many = index_terms.word_entries_of_pages(pages, batch.indexed_words, counts, Sketcher(Scheme(), tokens_max=7))
    for (key, url), entries, chosen, count in zip(pages, many, batch.indexed_words, counts.tolist(), strict=True):
        last = list(dict.fromkeys(reversed(path_words(url))))[: index_terms.PATH_WORDS_MAX]
        paths = [number for word in last for number in sketcher.token_hashes(word)][: index_terms.PATH_WORDS_MAX]
        words = {*chosen[:count].tolist(), *paths}
        words |= {index_terms.page_name_hash(name) for name in [index_terms.page_name(url)] if name}
        assert entries == b"".join(index_terms.site_hash(key) + word.to_bytes(4, "big") for word in sorted(words))
    assert index_terms.word_entries_of_pages([], batch.indexed_words[:0], counts[:0], sketcher) == []
