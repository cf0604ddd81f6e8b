"""Estimate the resemblance and containment of documents from their sketches, compiled by numba.

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
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.sketch.kernel import jit

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


@jit()
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


@jit()
def _information(common, a, b, sampled, bins):
    """Return the Fisher information about `common` in the signatures and in the samples, and `drawn`."""
    union = a + b - common
    slope = (a + b) / (union * union)  # the derivative of the resemblance
    resemblance = common / union
    agree = resemblance + (1 - resemblance) * _CHANCE_AGREEMENT
    # On average, `filled_bins` bins contain a shingle of A or B; each other bin copies a random one. A winner
    # with n copies therefore has the weight n + 1. The variance equals that of `drawn` shingles drawn from `union`.
    filled_bins = bins * (1 - math.exp(-union / bins))
    variance = max(1 / filled_bins + (bins - filled_bins) / (bins * bins) - 1 / union, 1e-9)
    drawn = (1 - 1 / union) / variance
    signature_information = drawn * (slope * (1 - _CHANCE_AGREEMENT)) ** 2 / max(agree * (1 - agree), 1e-9)
    parts = 1 / max(common, 0.5) + 1 / max(a - common, 0.5) + 1 / max(b - common, 0.5) - 1 / union
    sample_information = sampled / union * parts * (union - 1) / max(union - sampled, 0.5)
    return signature_information, sample_information, drawn


@jit()
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


@jit()
def compare_columns(rows_a, rows_b, columns_a, columns_b, figures, exact):
    """Compare row rows_a[i] of a with row rows_b[i] of b: set figures[:, i] and exact[i].

    The columns are tuples with the arrays of `_Sketches`; figures have the order of `Comparisons`, and are 0 for a
    row without shingles.
    """
    a, b = _Sketches(*columns_a), _Sketches(*columns_b)
    bins = a.signatures.shape[1]
    for pair in range(rows_a.size):
        i, j = rows_a[pair], rows_b[pair]
        size_a, size_b = float(a.shingles[i]), float(b.shingles[j])
        if size_a == 0 or size_b == 0:
            figures[:, pair] = 0.0
            exact[pair] = True
            continue
        exponent = max(a.exponents[i], b.exponents[j])
        both, in_a, in_b = _count_sampled(
            a.samples[i, : a.sample_sizes[i]], b.samples[j, : b.sample_sizes[j]], exponent
        )
        if exponent == 0:
            common, error = float(both), 0.0
        else:
            agreeing = 0
            for n in range(bins):
                agreeing += a.signatures[i, n] == b.signatures[j, n]
            common, error = _estimate_common(_Observation(size_a, size_b, both, in_a, in_b, agreeing, bins))
        union = size_a + size_b - common
        figures[0, pair] = common / union
        figures[1, pair] = error * (size_a + size_b) / (union * union)
        figures[2, pair] = common / size_a
        figures[3, pair] = error / size_a
        figures[4, pair] = common / size_b
        figures[5, pair] = error / size_b
        exact[pair] = exponent == 0


@jit()
def count_and_weigh_shared(a, weights, b):
    """Return the number of values in both `a` and `b` (uint32, ascending, distinct) and their total weight."""
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


@jit()
def sparse_dot_product(a, a_weights, b, b_weights):
    """Return the dot product of two sparse vectors, whose indices `a` and `b` are uint32, ascending and distinct."""
    i = j = 0
    total = 0.0
    while i < a.size and j < b.size:
        x, y = a[i], b[j]
        if x == y:
            total += a_weights[i] * b_weights[j]
        i += x <= y
        j += y <= x
    return total
