"""Fingerprints, buckets, and estimates against exact sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.scheme import Scheme
from streams.sketch.sketcher import (
    Sketcher,
    compare,
    compare_pairs,
    compare_with_each,
    cut_into_buckets,
    fingerprint,
    to_batch,
)

SCHEME = Scheme()
SKETCHER = Sketcher(SCHEME)


def pairs(rng: np.random.Generator, count: int, common: int, only_a: int, only_b: int) -> tuple[list[str], list[str]]:
    """Texts whose shingle sets share `common` shingles and keep `only_a` and `only_b` for themselves."""

    def words(n: int) -> list[str]:
        return [f"{x:x}" for x in rng.integers(0, 2**40, n)]

    a, b = [], []
    for _ in range(count):
        shared = words(common + SCHEME.shingle_words - 1) if common else []
        extra = 0 if common else SCHEME.shingle_words - 1
        a.append(" ".join(shared + words(only_a + extra)))
        b.append(" ".join(shared + words(only_b + extra)))
    return a, b


def estimates(
    common: int, only_a: int, only_b: int, count: int = 600
) -> dict[str, tuple[float, float, float, float]]:
    """(truth, bias, root mean square error, stated error) of each figure."""
    a, b = (SKETCHER.sketch_batch(texts) for texts in pairs(np.random.default_rng(5), count, common, only_a, only_b))
    rows = np.arange(count)
    got = compare_pairs(a, b, rows, rows)
    truths = {
        "resemblance": common / (common + only_a + only_b),
        "containment": common / (common + only_a),
        "contained": common / (common + only_b),
    }
    out = {}
    for name, truth in truths.items():
        values, errors = getattr(got, name), getattr(got, f"{name}_error")
        assert (values >= 0).all()
        assert (values <= 1).all()
        off = values - truth
        out[name] = (truth, off.mean(), float(np.sqrt((off**2).mean())), float(np.sqrt((errors**2).mean())))
    return out


@pytest.mark.parametrize(
    ("common", "only_a", "only_b"),
    [
        (60, 10, 10), (70, 15, 15), (100, 50, 50), (300, 30, 30), (700, 150, 150), (900, 20, 20), (500, 250, 250),
        (300, 350, 350), (100, 450, 450), (200, 10, 800), (300, 30, 1500), (5000, 1000, 1000), (40, 20, 300),
    ],
)  # fmt: skip
def test_estimates_are_unbiased_and_as_far_off_as_they_say(common: int, only_a: int, only_b: int) -> None:
    for name, (truth, bias, off, stated) in estimates(common, only_a, only_b).items():
        assert abs(bias) < 4 * off / 600**0.5 + 0.002, (name, truth, bias)
        assert 0.85 * stated < off < 1.15 * stated, (name, truth, off, stated)


@pytest.mark.parametrize(("common", "only_a", "only_b"), [(1000, 0, 0), (0, 800, 800), (200, 0, 2000), (30, 5, 2000)])
def test_at_the_ends_the_stated_error_is_no_less_than_the_error(common: int, only_a: int, only_b: int) -> None:
    """Figures are kept within 0 and 1, so that a truth of 0 or 1 can only be missed to one side."""
    for name, (truth, bias, off, stated) in estimates(common, only_a, only_b).items():
        assert stated > 0
        assert off < 1.05 * stated, (name, truth, off, stated)
        assert abs(bias) <= off


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))
def test_short_documents_are_exact(common: int, only_a: int, only_b: int) -> None:
    if not (0 < common + only_a <= SCHEME.sample_max and 0 < common + only_b <= SCHEME.sample_max):
        return
    (a,), (b,) = pairs(np.random.default_rng(common), 1, common, only_a, only_b)
    left, right = set(SKETCHER.shingle_hashes(a).tolist()), set(SKETCHER.shingle_hashes(b).tolist())
    got = compare(SKETCHER.sketch(a), SKETCHER.sketch(b))
    assert got.exact
    assert got.resemblance == len(left & right) / len(left | right)
    assert got.containment == len(left & right) / len(left)
    assert got.contained == len(left & right) / len(right)
    assert (got.resemblance_error, got.containment_error, got.contained_error) == (0, 0, 0)


WORDS = st.lists(st.sampled_from(["the", "same", "few", "words", "again", "and", "so", "on"]), max_size=400)


@settings(max_examples=200, deadline=None)
@given(WORDS, WORDS)
def test_comparing_is_symmetric_bounded_and_one_with_itself(a: list[str], b: list[str]) -> None:
    one, other = SKETCHER.sketch(" ".join(a)), SKETCHER.sketch(" ".join(b))
    forward, backward = compare(one, other), compare(other, one)
    assert forward.resemblance == pytest.approx(backward.resemblance, abs=1e-3)
    assert forward.containment == pytest.approx(backward.contained, abs=1e-3)
    for value in (forward.resemblance, forward.containment, forward.contained):
        assert 0 <= value <= 1
    assert np.isfinite([forward.resemblance_error, forward.containment_error, forward.contained_error]).all()
    if a:
        assert compare(one, one).resemblance == 1
    if not a:
        assert forward == backward
        assert forward.resemblance == 0


def test_many_are_each_one_alone() -> None:
    rng = np.random.default_rng(2)
    texts = [text for n in (5, 70, 500, 3000) for text in pairs(rng, 2, n, n // 5, n)[1]]
    sketch = SKETCHER.sketch(texts[3])
    others = [SKETCHER.sketch(text) for text in texts]
    many = compare_with_each(sketch, others)
    assert len(many) == len(others)
    for i, other in enumerate(others):
        assert many.comparison(i) == compare(sketch, other)
    assert len(compare_with_each(sketch, [])) == 0
    columns, batch = to_batch(others), SKETCHER.sketch_batch(texts)
    assert columns.documents == batch.documents
    assert np.array_equal(columns.shingles, batch.shingles)
    left, right = np.array([0, 3, 5]), np.array([1, 3, 7])
    assert np.array_equal(
        compare_pairs(columns, columns, left, right).resemblance, compare_pairs(batch, batch, left, right).resemblance
    )


def test_buckets_are_the_band_and_its_bytes_of_the_signature() -> None:
    batch = SKETCHER.sketch_batch(["one two three four five", "six seven"])
    cut = cut_into_buckets(batch.signatures, SCHEME)
    assert cut.shape == (2, SCHEME.bands, SCHEME.bucket_bytes)
    for n in range(2):
        for band in range(SCHEME.bands):
            rows = batch.signatures[n, band * SCHEME.rows : (band + 1) * SCHEME.rows]
            assert cut[n, band].tobytes() == bytes([band]) + rows.tobytes()
    assert cut_into_buckets(batch.signatures[:0], SCHEME).shape[0] == 0


@pytest.mark.parametrize("shingles", [40, 100, 1000])
def test_bands_find_pairs_as_often_as_resemblance_says(shingles: int) -> None:
    """1 - (1 - r**rows)**bands; short documents too, thanks to densified bins."""
    for resemblance in (0.5, 0.65, 0.8):
        common = round(2 * shingles * resemblance / (1 + resemblance))
        a, b = (
            cut_into_buckets(SKETCHER.sketch_batch(texts).signatures, SCHEME)
            for texts in pairs(np.random.default_rng(9), 800, common, shingles - common, shingles - common)
        )
        share = (a == b).all(axis=2).any(axis=1).mean()
        exact = common / (2 * shingles - common)
        expected = 1 - (1 - exact**SCHEME.rows) ** SCHEME.bands
        assert abs(share - expected) < (0.05 if shingles >= 100 else 0.12), (resemblance, share, expected)
        if resemblance == 0.8:
            assert share >= 0.975


def test_fingerprints() -> None:
    assert len(fingerprint(b"")) == 8
    assert fingerprint(b"a") != fingerprint(b"b")
    # One text twice over has the shingles of the text and those across the seam; three times over adds none.
    twice, thrice = (SKETCHER.sketch("a b c d e f " * n) for n in (2, 3))
    assert twice.document != thrice.document
    assert (twice.shingles, twice.sample.tolist()) == (thrice.shingles, thrice.sample.tolist())
    assert len(twice.document) == 16
