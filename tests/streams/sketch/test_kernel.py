"""The compiled pass against plain Python: tokens, shingles, samples, signatures."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.scheme import Scheme
from streams.sketch import unicode_table
from streams.sketch.sketcher import Sketcher
from streams.sketch.unicode_table import IGNORED, MARK, SEPARATOR, SOLO
from tests.streams.sketch import build_unicode_table

ROOT = Path(__file__).parents[3]
SCHEME = Scheme()
SKETCHER = Sketcher(SCHEME)

# Texts that meet every path: plain ASCII, folding, composing, scripts without spaces, joiners, emoji, surrogates.
TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="ab cdE.\n-9_", max_size=300),
    st.text(
        alphabet="aÉß ſẞİıΣςſﬁ½Å\u0301\u0327\u00ad\u200d\u200b漢字かﾊﾟไทย\u0e31က\u103cខ\u17d2 한\u1161\u11a8😀\U0001f468\ud800\u2019",
        max_size=60,
    ),
)


def reference_tokens(text: str) -> list[str]:
    """Canonical tokens by the book: drop what is ignored, normalise, fold, cut."""
    entries = unicode_table.load()
    text = text.encode("utf-8", "replace").decode()
    text = "".join(" " if entries[ord(c)] & unicode_table.UNASSIGNED else c for c in text)
    text = "".join(c for c in text if build_unicode_table.class_of(c) != IGNORED)
    tokens, word, solo = [], "", False
    for char in unicode_table.nfkc_casefold(text):
        kind = build_unicode_table.class_of(char)
        if word and (kind in (SEPARATOR, SOLO) or (solo and kind != MARK)):
            tokens.append(word)
            word, solo = "", False
        if kind != SEPARATOR:
            solo = solo or kind == SOLO
            word += char
    return [*tokens, word] if word else tokens


@settings(max_examples=600, deadline=None)
@given(TEXTS)
def test_tokens_are_those_of_the_book(text: str) -> None:
    assert SKETCHER.canonical_text(text).split(" ") == (reference_tokens(text) or [""])


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_canonical_text_is_its_own_canonical_text(text: str) -> None:
    once = SKETCHER.canonical_text(text)
    assert SKETCHER.canonical_text(once) == once
    assert SKETCHER.sketch(once).document == SKETCHER.sketch(text).document


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_normal_forms_do_not_matter(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    canonical = SKETCHER.canonical_text(text)
    for form in ("NFC", "NFKD"):
        assert SKETCHER.canonical_text(unicodedata.normalize(form, text)) == canonical


def test_scripts_without_spaces_give_a_token_a_character() -> None:
    assert SKETCHER.canonical_text("東京タワー") == "東 京 タ ワ ー"
    assert SKETCHER.canonical_text("ที่นี่").count(" ") == 1  # consonants with their vowel signs and tones
    assert SKETCHER.canonical_text("ភាសា").count(" ") == 1
    assert (
        SKETCHER.canonical_text("Straße STRASSE ﬁne \uff26\uff55\uff4c\uff4c soft\u00adhyphen")
        == "strasse strasse fine full softhyphen"
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "dd", "eightlet", "ninelette", "seventeenletters"]), max_size=120))
def test_shingles_are_the_distinct_runs_of_words(words: list[str]) -> None:
    w = SCHEME.shingle_words
    expected = {tuple(words[i : i + w]) for i in range(max(1, len(words) - w + 1))} if words else set()
    sketch = SKETCHER.sketch(" ".join(words))
    hashes = SKETCHER.shingle_hashes(" ".join(words))
    assert len(hashes) == sketch.shingles == len(expected)
    assert sketch.tokens == len(words)
    assert (np.diff(hashes.astype(np.int64)) > 0).all()
    for a in expected:  # a shingle's value depends on nothing around it
        assert SKETCHER.shingle_hashes(" ".join(a))[0] in hashes


def test_the_sample_is_all_values_of_the_least_modulus_that_fits() -> None:
    rng = random.Random(1)
    for count in (1, 63, 64, 65, 66, 67, 68, 129, 1000, 20000):
        text = " ".join(f"{rng.getrandbits(40):x}" for _ in range(count + 3))
        sketch, values = SKETCHER.sketch(text), SKETCHER.shingle_hashes(text)
        k = 0
        while (values % (1 << k) == 0).sum() > SCHEME.sample_max:
            k += 1
        assert sketch.exponent == k
        assert np.array_equal(sketch.sample, values[values % (1 << k) == 0])
        assert sketch.sample.dtype == np.uint32


def test_words_are_counted() -> None:
    words, counts = SKETCHER.words_and_counts("to be or not to be, that is the question")
    assert len(words) == 8
    assert sorted(counts.tolist()) == [1, 1, 1, 1, 1, 1, 2, 2]
    again, _ = SKETCHER.words_and_counts("QUESTION the")
    assert set(again.tolist()) < set(words.tolist())
    assert [column.size for column in SKETCHER.words_and_counts(" .")] == [0, 0]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, max_size=12))
def test_a_batch_is_its_texts_one_by_one(texts: list[str]) -> None:
    batch = SKETCHER.sketch_batch(texts)
    assert len(batch) == len(texts)
    for i, text in enumerate(texts):
        one, alone = batch.sketch(i), SKETCHER.sketch(text)
        assert (one.document, one.exponent, one.shingles, one.tokens) == (
            alone.document, alone.exponent, alone.shingles, alone.tokens,
        )  # fmt: skip
        assert np.array_equal(one.signature, alone.signature)
        assert np.array_equal(one.sample, alone.sample)


def test_a_long_text_is_cut() -> None:
    short = Sketcher(SCHEME, tokens_max=10)
    batch = short.sketch_batch(["a b c", " ".join(map(str, range(11))), " ".join(map(str, range(10)))])
    assert batch.tokens.tolist() == [3, 10, 10]
    assert batch.documents[1] == batch.documents[2]


def test_no_token_gives_an_empty_sketch() -> None:
    for text in ("", " ", "...", "—\u00ad"):
        sketch = SKETCHER.sketch(text)
        assert (sketch.shingles, sketch.tokens, len(sketch.sample)) == (0, 0, 0)


def test_ten_thousand_shingles_all_alike_are_one() -> None:
    sketch = SKETCHER.sketch("spam " * 10_003)
    assert (sketch.shingles, sketch.tokens, len(sketch.sample), sketch.exponent) == (1, 10_003, 1, 0)


def test_another_seed_shares_nothing() -> None:
    text = " ".join(str(i * i) for i in range(3000))
    a, b = SKETCHER.sketch(text), Sketcher(Scheme(seed=7)).sketch(text)
    assert a.document != b.document
    assert a.shingles == b.shingles
    assert (a.signature == b.signature).mean() < 0.1
    assert not set(a.sample.tolist()) & set(b.sample.tolist())


def test_a_big_text_among_small_ones_does_not_disturb_them() -> None:
    texts = ["a b c d e", "x " * 3_000_000, "é" * 100_000, "漢" * 100_000, "a b c d e"]
    batch = SKETCHER.sketch_batch(texts)
    assert batch.documents[0] == batch.documents[4] == SKETCHER.sketch("a b c d e").document
    assert batch.tokens.tolist() == [5, 1_000_000, 1, 100_000, 5]
    assert np.array_equal(batch.signatures[0], batch.signatures[4])


@pytest.mark.parametrize("words", [1, 2, 8])
def test_other_shingle_lengths(words: int) -> None:
    sketcher = Sketcher(Scheme(shingle_words=words))
    text = " ".join(map(str, range(100)))
    assert sketcher.sketch(text).shingles == 101 - words
    tail = sketcher.shingle_hashes(" ".join(map(str, range(50, 100))))
    assert set(tail.tolist()) < set(sketcher.shingle_hashes(text).tolist())


def test_signature_bytes_are_uniform_and_bins_independent() -> None:
    """A bucket is signature bytes as they are: a skew would make buckets hot."""
    rng = np.random.default_rng(1)
    texts = [" ".join(f"{x:x}" for x in rng.integers(0, 2**40, n)) for n in rng.integers(1, 600, 4000)]
    signatures = SKETCHER.sketch_batch(texts).signatures
    counts = np.bincount(signatures.ravel(), minlength=256)
    expected = signatures.size / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * (2 * 255) ** 0.5
    accidents = (signatures[1:] == signatures[:-1]).mean() * 256
    assert 0.95 < accidents < 1.05
    assert (
        len({row[:5].tobytes() for row in SKETCHER.sketch_batch([f"w{i}" for i in range(4000)]).signatures}) == 4000
    )


def test_a_shingle_changes_half_the_bits_of_its_value() -> None:
    rng = random.Random(3)
    flips = []
    for _ in range(1500):
        words = [f"{rng.getrandbits(30):x}" for _ in range(4)]
        other = list(words)
        other[rng.randrange(4)] += "x"
        a, b = (int(SKETCHER.shingle_hashes(" ".join(text))[0]) for text in (words, other))
        flips.append([(a ^ b) >> bit & 1 for bit in range(32)])
    assert (np.abs(np.mean(flips, axis=0) - 0.5) < 0.07).all()
    orders = ("a b c d", "b a c d", "a b d c", "d c b a", "a a b c", "a b c", "abcd")
    assert len({int(SKETCHER.shingle_hashes(text)[0]) for text in orders}) == len(orders)


def test_sampled_or_not_a_shingle_wins_its_bin_as_often() -> None:
    """Whether a shingle is sampled must say nothing about the signature: else the two estimates would not be two."""
    rng = np.random.default_rng(4)
    outcomes = []
    for _ in range(300):
        words = [f"{x:x}" for x in rng.integers(0, 2**40, 403)]
        base = SKETCHER.sketch(" ".join(words))
        for extra in range(20):
            added = " ".join([*words, *(f"{x:x}" for x in rng.integers(0, 2**40, 1))])
            sketch = SKETCHER.sketch(added)
            new = np.setdiff1d(SKETCHER.shingle_hashes(added), SKETCHER.shingle_hashes(" ".join(words)))[0]
            outcomes.append((int(new) % 2 == 0, (sketch.signature != base.signature).any()))
            if extra == 3:
                break
    even = np.array([won for is_even, won in outcomes if is_even]).mean()
    odd = np.array([won for is_even, won in outcomes if not is_even]).mean()
    assert abs(even - odd) < 0.12


def test_importing_the_sketcher_does_not_load_numba() -> None:
    code = "import sys, streams.sketch.sketcher, streams.sketch.extract; sys.exit('numba' in sys.modules or 'resiliparse' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_it_works_where_nothing_can_be_cached() -> None:
    """No writable cache folder: functions are compiled at each start, with the same results."""
    code = (
        "import numba.core.caching as c\n"
        "def none(*a): raise RuntimeError('no locator')\n"
        "c.CacheImpl.__init__ = none\n"
        "from streams.sketch.kernel import jit\n"
        "assert jit()(lambda x: x + 1)(1) == 2"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_cache_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    """Numba cannot store its cache if neither the package's folder nor the user's cache folder is writable."""
    code = (
        "import streams.sketch.kernel, streams.sketch.html_counts, streams.sketch.similarity\n"
        "from streams.sketch.compile_cache import describe_compilation\n"
        "print(describe_compilation())"
    )
    environment = os.environ | {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator", "NUMBA_CACHE_DIR": ""}
    lines = []
    for folder, compilation in (("", "compiling"), (str(tmp_path), "compiling, only once")):
        environment["NUMBA_CACHE_DIR"] = folder
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
        )
        assert result.stdout == f"{compilation}\n"
        lines.append(result.stderr.splitlines())
    (line,), without_warning = lines
    assert "numba cannot write its cache" in line
    assert "NUMBA_CACHE_DIR" in line
    assert without_warning == []
