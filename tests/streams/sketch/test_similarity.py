"""The functions in numpy return exactly the same results as the loops compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.sketch import similarity

BINS, SAMPLE_MAX, PAIRS = 128, 300, 1_500


def test_random_sketches_have_equal_figures_to_the_last_bit() -> None:
    rng = np.random.default_rng(17)
    columns_a, columns_b = _random_columns(rng), _random_columns(rng)
    rows = np.arange(PAIRS)
    results = []
    for functions in (similarity.IN_NUMPY, similarity.compiled()):
        figures, exact = np.full((6, PAIRS), np.nan), np.zeros(PAIRS, np.bool_)
        functions.compare_columns(rows, rows[::-1].copy(), columns_a, columns_b, figures, exact)
        results.append((figures, exact))
    (figures, exact), (compiled_figures, compiled_exact) = results
    assert figures.tobytes() == compiled_figures.tobytes()
    assert exact.tobytes() == compiled_exact.tobytes()
    assert 0 < exact.sum() < PAIRS
    assert (figures[0] > 0).mean() > 0.5
    assert (figures[1] > 0).mean() > 0.5


def test_random_arrays_have_equal_sums_to_the_last_bit() -> None:
    rng = np.random.default_rng(18)
    compiled = similarity.compiled()
    for size in [0, 1, 2, *rng.integers(0, 3_000, 200)]:
        a, b = (np.unique(rng.integers(0, 4_000, n)).astype(np.uint32) for n in (size, rng.integers(0, 3_000)))
        x, y = rng.random(a.size), rng.random(b.size)
        for functions in ((a, x, b), (b, y, a)):
            assert similarity.IN_NUMPY.count_and_weigh_shared(*functions) == compiled.count_and_weigh_shared(
                *functions
            )
        assert similarity.IN_NUMPY.sparse_dot_product(a, x, b, y) == compiled.sparse_dot_product(a, x, b, y)


def _random_columns(rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
    """Return sketches of all exponents from 0 to 4, some without shingles, that share values with each other."""
    samples = np.zeros((PAIRS, SAMPLE_MAX), np.uint32)
    sizes, shingles = np.zeros(PAIRS, np.int64), np.zeros(PAIRS, np.int64)
    exponents = rng.choice([0, 0, 1, 2, 4], PAIRS)
    for i, exponent in enumerate(exponents.tolist()):
        values = np.unique(rng.integers(1, rng.integers(2, 800), rng.integers(0, SAMPLE_MAX + 1)))
        sizes[i] = len(values)
        samples[i, : len(values)] = values.astype(np.uint32) << np.uint32(exponent)
        shingles[i] = len(values) if exponent == 0 else int(len(values) * 2**exponent * rng.uniform(0.8, 1.2))
    return rng.integers(0, 3, (PAIRS, BINS)).astype(np.uint8), samples, sizes, exponents, shingles
