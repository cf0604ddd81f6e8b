"""Estimate the resemblance and containment of documents from their sketches.

The sizes |A| and |B| are known exactly, so only I = |A and B| must be estimated: the resemblance is
I / (|A| + |B| - I), the containments are I / |A| and I / |B|. Two independent observations depend on I:

- the signatures agree in some of their bins. A bin agrees with probability r + (1 - r) / 256 for a resemblance r,
  because bytes may agree by chance (b-bit minwise hashing, Li and Koenig 2010).
- the samples, both reduced to the shingles divisible by the greater modulus, contain s shingles of A or B. The
  expected numbers of these in both documents, only in A and only in B have the proportions I : |A| - I : |B| - I.

The estimate of I maximises the joint likelihood by Fisher scoring. The standard error of I is the inverse square root
of the information at the maximum. Given s and the sizes, the proportions are exact, so the modulus adds no bias even
though it depends on the documents. Both observations draw from the shingles of A or B without replacement: the fewer
shingles remain undrawn, the more an observation contributes. If both samples contain all shingles, the figures are
counted, not estimated.

Loading numba takes more than half a second of CPU, as long as comparing tens of thousands of pairs in numpy. Until
`streams.sketch.numba_use` loads it, `compare_columns` and the functions for sorted arrays therefore run in numpy.
Afterwards, the loops that numba compiles replace them. Both perform the same operations in the same order, so the
results are equal to the last bit.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.sketch import numba_use

_PAIR_SECONDS, _VALUE_SECONDS = 1e-4, 2e-8  # in numpy: per pair of sketches, and per value of a sorted array
_STEPS_MAX = 8
_CHANCE_AGREEMENT = 1 / 256  # the probability that different shingles give a bin the same byte


class _Sketches(NamedTuple):
    """The columns of `SketchBatch` that a comparison needs."""

    signatures: NDArray[np.uint8]
    samples: NDArray[np.uint32]
    sample_sizes: NDArray[np.int64]
    exponents: NDArray[np.int64]
    shingles: NDArray[np.int64]


class _Observation(NamedTuple):
    """The evidence in two sketches about the shingles that their documents share."""

    a: float  # |A|
    b: float  # |B|
    both: int  # number of sampled shingles in A and B
    in_a: int  # number of sampled shingles in A
    in_b: int  # number of sampled shingles in B
    agreeing: int  # number of bins that agree
    bins: int


def _count_sampled(a, b, exponent):
    """Return how many values divisible by 2**exponent are in both samples (ascending), in `a`, and in `b`."""
    mask = (np.uint32(1) << np.uint32(exponent)) - np.uint32(1)
    in_a = in_b = both = 0
    for value in a:
        in_a += (value & mask) == 0
    for value in b:
        in_b += (value & mask) == 0
    i = j = 0
    while i < a.size and j < b.size:
        x, y = a[i], b[j]
        both += (x == y) & ((x & mask) == 0)
        i += x <= y
        j += y <= x
    return both, in_a, in_b


def _information(common, a, b, sampled, bins):
    """Return the Fisher information about `common` in the signatures and in the samples, and `drawn`."""
    union = a + b - common
    signature_slope = (a + b) / (union * union) * (1 - _CHANCE_AGREEMENT)
    resemblance = common / union
    agree = resemblance + (1 - resemblance) * _CHANCE_AGREEMENT
    # On average, `filled_bins` bins contain a shingle of A or B; each other bin copies a random one. A winner
    # with n copies therefore has the weight n + 1. The variance equals that of `drawn` shingles drawn from `union`.
    filled_bins = bins * (1 - math.exp(-union / bins))
    variance = max(1 / filled_bins + (bins - filled_bins) / (bins * bins) - 1 / union, 1e-9)
    drawn = (1 - 1 / union) / variance
    signature_information = drawn * (signature_slope * signature_slope) / max(agree * (1 - agree), 1e-9)
    parts = 1 / max(common, 0.5) + 1 / max(a - common, 0.5) + 1 / max(b - common, 0.5) - 1 / union
    sample_information = sampled / union * parts * (union - 1) / max(union - sampled, 0.5)
    return signature_information, sample_information, drawn


def _estimate_common(observation):
    """Return the estimate of |A and B| and its standard error."""
    a, b, both, in_a, in_b, agreeing, bins = observation
    sampled = in_a + in_b - both
    common_min, common_max = float(both), min(a - (in_a - both), b - (in_b - both))
    observed = agreeing / bins
    resemblance = min(max((observed - _CHANCE_AGREEMENT) / (1 - _CHANCE_AGREEMENT), 0.02), 0.98)
    common = min(max(resemblance * (a + b) / (1 + resemblance), common_min), common_max)
    for _ in range(_STEPS_MAX):
        union = a + b - common
        signature, sample, drawn = _information(common, a, b, sampled, bins)
        slope = (a + b) / (union * union) * (1 - _CHANCE_AGREEMENT)
        agree = common / union * (1 - _CHANCE_AGREEMENT) + _CHANCE_AGREEMENT
        score = drawn * (observed - agree) * slope / max(agree * (1 - agree), 1e-9)
        undrawn = (union - 1) / max(union - sampled, 0.5)
        score += undrawn * (
            both / max(common, 0.5)
            - (in_a - both) / max(a - common, 0.5)
            - (in_b - both) / max(b - common, 0.5)
            + sampled / union
        )
        step = score / (signature + sample)
        common = min(max(common + step, common_min), common_max)
        if abs(step) < 1e-3 * union:
            break
    # At an end of the range, the error would be 0 only because no difference was sampled. Compute it inside the
    # range, at a distance of about the number of shingles that each sampled or drawn shingle represents.
    union = a + b - common
    margin = min(union / (sampled + drawn + 2), min(a, b) / 2)
    inner = min(max(common, margin), min(a, b) - margin)
    signature, sample, _ = _information(inner, a, b, sampled, bins)
    return common, 1 / math.sqrt(signature + sample)


def _figures(observation, exponent):
    """Return the six figures of `Comparisons`, in order. If the exponent is 0, both samples are complete."""
    a, b = observation.a, observation.b
    common, error = (float(observation.both), 0.0) if exponent == 0 else _estimate_common(observation)
    union = a + b - common
    return common / union, error * (a + b) / (union * union), common / a, error / a, common / b, error / b


def _compare_columns_loop(rows_a, rows_b, columns_a, columns_b, figures, exact):
    a, b = _Sketches(*columns_a), _Sketches(*columns_b)
    bins = a.signatures.shape[1]
    for pair in range(rows_a.size):
        i, j = rows_a[pair], rows_b[pair]
        size_a, size_b = float(a.shingles[i]), float(b.shingles[j])
        exact[pair] = True
        if size_a == 0 or size_b == 0:
            figures[:, pair] = 0.0
            continue
        exponent = max(a.exponents[i], b.exponents[j])
        both, in_a, in_b = _count_sampled(
            a.samples[i, : a.sample_sizes[i]], b.samples[j, : b.sample_sizes[j]], exponent
        )
        agreeing = 0
        if exponent:
            for n in range(bins):
                agreeing += a.signatures[i, n] == b.signatures[j, n]
            exact[pair] = False
        values = _figures(_Observation(size_a, size_b, both, in_a, in_b, agreeing, bins), exponent)
        for n in range(6):
            figures[n, pair] = values[n]


def _compare_columns_in_numpy(rows_a, rows_b, columns_a, columns_b, figures, exact):
    a, b = _Sketches(*columns_a), _Sketches(*columns_b)
    bins = a.signatures.shape[1]
    for pair, (i, j) in enumerate(zip(rows_a.tolist(), rows_b.tolist(), strict=True)):
        size_a, size_b = float(a.shingles[i]), float(b.shingles[j])
        exact[pair] = True
        if size_a == 0 or size_b == 0:
            figures[:, pair] = 0.0
            continue
        exponent = int(max(a.exponents[i], b.exponents[j]))
        mask = np.uint32((1 << exponent) - 1)
        sample_a, sample_b = a.samples[i, : a.sample_sizes[i]], b.samples[j, : b.sample_sizes[j]]
        sample_a, sample_b = sample_a[sample_a & mask == 0], sample_b[sample_b & mask == 0]
        both = int(_is_shared(sample_a, sample_b)[0].sum())
        agreeing = int(np.count_nonzero(a.signatures[i] == b.signatures[j]))
        observation = _Observation(size_a, size_b, both, len(sample_a), len(sample_b), agreeing, bins)
        figures[:, pair] = _figures(observation, exponent)
        exact[pair] = exponent == 0


def _count_and_weigh_shared_loop(a, weights, b):
    i = j = count = 0
    total = 0.0
    while i < a.size and j < b.size:
        x, y = a[i], b[j]
        if x == y:
            count += 1
            total += weights[i]
        i += x <= y
        j += y <= x
    return count, total


def _count_and_weigh_shared_in_numpy(a, weights, b):
    shared_weights = weights[_is_shared(a, b)[0]]
    return len(shared_weights), _sum_in_order(shared_weights)


def _sparse_dot_product_loop(a, a_weights, b, b_weights):
    i = j = 0
    total = 0.0
    while i < a.size and j < b.size:
        x, y = a[i], b[j]
        if x == y:
            total += a_weights[i] * b_weights[j]
        i += x <= y
        j += y <= x
    return total


def _sparse_dot_product_in_numpy(a, a_weights, b, b_weights):
    is_shared, positions = _is_shared(a, b)
    return _sum_in_order(a_weights[is_shared] * b_weights[positions[is_shared]])


def _is_shared(a, b):
    """Return which values of `a` are in `b`, and the position in `b` of each of these; both are ascending."""
    if not b.size:
        return np.zeros(a.size, dtype=np.bool_), np.zeros(a.size, dtype=np.int64)
    positions = np.minimum(np.searchsorted(b, a), b.size - 1)
    return b[positions] == a, positions


def _sum_in_order(values):
    """Add values from first to last, as a loop does. `np.sum` adds them in pairs, which rounds differently."""
    return float(np.cumsum(values)[-1]) if values.size else 0.0


class _Functions(NamedTuple):
    """Implementations of the three public functions."""

    compare_columns: Callable[..., None]
    count_and_weigh_shared: Callable[..., tuple[int, float]]
    sparse_dot_product: Callable[..., float]


IN_NUMPY = _Functions(_compare_columns_in_numpy, _count_and_weigh_shared_in_numpy, _sparse_dot_product_in_numpy)


@cache
def compiled() -> _Functions:
    """Return the loops, compiled by numba, which is loaded on first use."""
    from numba.extending import register_jitable

    from streams.sketch.kernel import jit

    for function in (_count_sampled, _information, _estimate_common, _figures):
        register_jitable(function)
    loops = (_compare_columns_loop, _count_and_weigh_shared_loop, _sparse_dot_product_loop)
    return _Functions(*map(jit(), loops))


def _functions(numpy_seconds: float) -> _Functions:
    return compiled() if numba_use.is_worthwhile(numpy_seconds) else IN_NUMPY


def compare_columns(
    rows_a: NDArray[np.int64],
    rows_b: NDArray[np.int64],
    columns_a: tuple[Any, ...],
    columns_b: tuple[Any, ...],
    figures: NDArray[np.float64],
    exact: NDArray[np.bool_],
) -> None:
    """Compare row rows_a[i] of a with row rows_b[i] of b: set figures[:, i] and exact[i].

    The columns are tuples with the arrays of `_Sketches`; figures have the order of `Comparisons`, and are 0 for a
    row without shingles.
    """
    functions = _functions(_PAIR_SECONDS * rows_a.size)
    functions.compare_columns(rows_a, rows_b, columns_a, columns_b, figures, exact)


def count_and_weigh_shared(
    a: NDArray[np.uint32], weights: NDArray[np.float64], b: NDArray[np.uint32]
) -> tuple[int, float]:
    """Return the number of values in both `a` and `b` (uint32, ascending, distinct) and their total weight."""
    return _functions(_VALUE_SECONDS * a.size).count_and_weigh_shared(a, weights, b)


def sparse_dot_product(
    a: NDArray[np.uint32], a_weights: NDArray[np.float64], b: NDArray[np.uint32], b_weights: NDArray[np.float64]
) -> float:
    """Return the dot product of two sparse vectors, whose indices `a` and `b` are uint32, ascending and distinct."""
    return _functions(_VALUE_SECONDS * a.size).sparse_dot_product(a, a_weights, b, b_weights)
