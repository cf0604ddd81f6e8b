"""Estimates the resemblance and containment of documents from their sketches; compiled by numba.

`streams.sketch.sketcher` calls this module.

With exact sizes |A| and |B| known, one number is left to estimate, I = |A and B|: resemblance is I / (|A| + |B| - I),
the containments are I / |A| and I / |B|. Two independent observations speak of it:

- the signature: of `bins` bins, y agree; the chance of that is r + (1 - r) / 256, as bytes may agree by accident
  (b-bit minwise hashing, Li and Koenig 2010);
- the sample, at the greater of the two moduli: of s sampled shingles of A or B, some lie in both, some only in A,
  some only in B, in the proportions I : |A| - I : |B| - I.

I is where their likelihood is greatest, found by Fisher scoring; the inverse root of the information there is the
standard error. Given s and the sizes the proportions are exact, so that the choice of the modulus, which depends on
the documents, adds no bias. Both observations draw without replacement from the shingles of A or B; the less is left
undrawn, the more they tell. Where both samples hold all shingles, the answer is counted, not estimated.
"""

# Compiled functions take numba's types, which annotations cannot name, and columns one by one.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import math

import numpy as np

from streams.sketch.kernel import jit

_STEPS = 8
_ACCIDENT = 1 / 256  # two different shingles leave the same byte in a bin


@jit()
def _sampled(a, a_size, b, b_size, exponent):
    """Of two ascending samples, the values that are 0 mod 2**exponent: (in both, in a, in b)."""
    mask = (np.uint32(1) << np.uint32(exponent)) - np.uint32(1)
    in_a = in_b = both = 0
    for n in range(a_size):
        in_a += (a[n] & mask) == 0
    for n in range(b_size):
        in_b += (b[n] & mask) == 0
    i = j = 0
    while i < a_size and j < b_size:
        x, y = a[i], b[j]
        both += (x == y) & ((x & mask) == 0)
        i += x <= y
        j += y <= x
    return both, in_a, in_b


@jit()
def _information(common, a, b, sampled, bins):
    """Fisher information about `common` of (signature, sample), and the signature's effective number of bins."""
    union = a + b - common
    slope = (a + b) / (union * union)  # of resemblance
    resemblance = common / union
    agree = resemblance + (1 - resemblance) * _ACCIDENT
    # Of `bins` bins `full` hold a shingle of A or B; each other one repeats one of those at random. So a bin's winner
    # weighs 1 + its copies, and the spread of that is the spread of a draw of `drawn` shingles from `union`.
    full = bins * (1 - math.exp(-union / bins))
    spread = max(1 / full + (bins - full) / (bins * bins) - 1 / union, 1e-9)
    drawn = (1 - 1 / union) / spread
    of_signature = drawn * (slope * (1 - _ACCIDENT)) ** 2 / max(agree * (1 - agree), 1e-9)
    parts = 1 / max(common, 0.5) + 1 / max(a - common, 0.5) + 1 / max(b - common, 0.5) - 1 / union
    of_sample = sampled / union * parts * (union - 1) / max(union - sampled, 0.5)
    return of_signature, of_sample, drawn


@jit()
def _likeliest(a, b, both, in_a, in_b, agreeing, bins):
    """The estimate of |A and B| and its standard error; sizes as floats."""
    sampled = in_a + in_b - both
    least, greatest = float(both), min(a - (in_a - both), b - (in_b - both))
    observed = agreeing / bins
    resemblance = min(max((observed - _ACCIDENT) / (1 - _ACCIDENT), 0.02), 0.98)
    common = min(max(resemblance * (a + b) / (1 + resemblance), least), greatest)
    for _ in range(_STEPS):
        union = a + b - common
        of_signature, of_sample, drawn = _information(common, a, b, sampled, bins)
        slope = (a + b) / (union * union) * (1 - _ACCIDENT)
        agree = common / union * (1 - _ACCIDENT) + _ACCIDENT
        score = drawn * (observed - agree) * slope / max(agree * (1 - agree), 1e-9)
        left = (union - 1) / max(union - sampled, 0.5)
        score += left * (
            both / max(common, 0.5)
            - (in_a - both) / max(a - common, 0.5)
            - (in_b - both) / max(b - common, 0.5)
            + sampled / union
        )
        step = score / (of_signature + of_sample)
        common = min(max(common + step, least), greatest)
        if abs(step) < 1e-3 * union:
            break
    # No error of zero because nothing was seen to differ: stand off the ends by what one unseen shingle weighs.
    union = a + b - common
    margin = min(union / (sampled + drawn + 2), min(a, b) / 2)
    inner = min(max(common, margin), min(a, b) - margin)
    of_signature, of_sample, _ = _information(inner, a, b, sampled, bins)
    return common, 1 / math.sqrt(of_signature + of_sample)


@jit()
def compare_columns(
    left, right,
    a_signatures, a_samples, a_sizes, a_exponents, a_shingles,
    b_signatures, b_samples, b_sizes, b_exponents, b_shingles, out, exact,
):  # fmt: skip
    """Compare row left[i] of a with row right[i] of b: six figures into out[i], whether counted in exact[i].

    Rows without a shingle resemble nothing.
    """
    bins = a_signatures.shape[1]
    for pair in range(left.size):
        i, j = left[pair], right[pair]
        a, b = float(a_shingles[i]), float(b_shingles[j])
        if a == 0 or b == 0:
            out[pair, :] = 0.0
            exact[pair] = True
            continue
        exponent = max(a_exponents[i], b_exponents[j])
        both, in_a, in_b = _sampled(a_samples[i], a_sizes[i], b_samples[j], b_sizes[j], exponent)
        if exponent == 0:
            common, error = float(both), 0.0
        else:
            agreeing = 0
            for n in range(bins):
                agreeing += a_signatures[i, n] == b_signatures[j, n]
            common, error = _likeliest(a, b, both, in_a, in_b, agreeing, bins)
        union = a + b - common
        out[pair, 0] = common / union
        out[pair, 1] = error * (a + b) / (union * union)
        out[pair, 2] = common / a
        out[pair, 3] = error / a
        out[pair, 4] = common / b
        out[pair, 5] = error / b
        exact[pair] = exponent == 0


@jit()
def shared_weight(a, weights, b):
    """How many values `a` and `b` share, and what these weigh in `a`; both uint32, ascending and distinct."""
    i = j = n = 0
    total = 0.0
    while i < a.size and j < b.size:
        x, y = a[i], b[j]
        if x == y:
            n += 1
            total += weights[i]
        i += x <= y
        j += y <= x
    return n, total


@jit()
def shared_product(a, a_weights, b, b_weights):
    """The dot product of two sparse vectors: weights of values, both uint32, ascending and distinct."""
    i = j = 0
    total = 0.0
    while i < a.size and j < b.size:
        x, y = a[i], b[j]
        if x == y:
            total += a_weights[i] * b_weights[j]
        i += x <= y
        j += y <= x
    return total
