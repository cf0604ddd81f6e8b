"""Compare estimates and bands with exact shingle sets: `python -m bench.accuracy`.

Pairs of texts with a given resemblance and ratio of sizes are generated from words that occur once, so their exact
shingle sets are known. The output has the bias, root mean square error (rmse) and stated standard error of each
estimate, and the share of pairs with a common bucket. Estimates are clipped to the range 0 to 1, so near its ends they
err to one side only. There, the bias comes from clipping, and the stated error is at least the rmse.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np
from numpy.typing import NDArray

from state.scheme import Scheme
from streams.sketch.sketcher import Sketcher, compare_pairs, cut_into_buckets

RESEMBLANCES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.97, 1.0)
CONTAINMENTS = ((0.5, 10), (0.9, 3), (0.9, 10), (1.0, 10))  # containment of a in b; size of b relative to a
RECALL_MIN = 0.99  # for pairs whose resemblance is 0.1 above the threshold

Row = dict[str, float | str | bool]


def words(rng: np.random.Generator, count: int) -> list[str]:
    return [f"{word:x}" for word in rng.integers(0, 2**40, count)]


def text_pairs(
    rng: np.random.Generator, pairs: int, sizes: tuple[int, int, int], overlap: int
) -> tuple[list[str], list[str]]:
    """Generate pairs of texts; `sizes` are the numbers of shingles in both, only in a and only in b.

    The common shingles come first. `overlap` is the number of words that successive shingles share.
    """
    common, only_a, only_b = sizes
    a, b = [], []
    for _ in range(pairs):
        shared = words(rng, common + overlap) if common else []
        rest = 0 if common else overlap
        a.append(" ".join(shared + words(rng, only_a + rest if only_a else 0)))
        b.append(" ".join(shared + words(rng, only_b + rest if only_b else 0)))
    return a, b


def compare_estimates(sketcher: Sketcher, sizes: tuple[int, int, int], pairs: int, seed: int) -> list[Row]:
    """Return a row each for the resemblance and the containment: truth, bias, rmse and stated error."""
    common, only_a, only_b = sizes
    sides = text_pairs(np.random.default_rng(seed), pairs, sizes, sketcher.scheme.shingle_words - 1)
    a, b = (sketcher.sketch_batch(side) for side in sides)
    # Shingles are hashed to 32 bits: in one of a hundred texts with 8,000 shingles, two of them collide.
    assert np.all(np.abs(a.shingles - common - only_a) <= 3), "the texts have a wrong number of shingles"
    indexes = np.arange(pairs)
    comparisons = compare_pairs(a, b, indexes, indexes)
    truths = {
        "resemblance": common / (common + only_a + only_b),
        "containment": common / (common + only_a),
    }
    rows: list[Row] = []
    for figure, truth in truths.items():
        values: NDArray[np.float64] = getattr(comparisons, figure)
        errors: NDArray[np.float64] = getattr(comparisons, f"{figure}_error")
        rmse = float(np.sqrt(np.mean((values - truth) ** 2)))
        rows.append(
            {
                "figure": figure, "a": common + only_a, "b": common + only_b, "truth": truth,
                "bias": float(np.mean(values) - truth), "bias_error": float(np.std(values) / pairs**0.5),
                "rmse": rmse, "stated": float(np.sqrt(np.mean(errors**2))), "exact": bool(comparisons.exact.all()),
            }
        )  # fmt: skip
    return rows


def estimates(sketcher: Sketcher, pairs: int) -> list[Row]:
    rows = []
    for shingles in (40, 100, 1000, 8000):
        for resemblance in RESEMBLANCES:
            common = round(2 * shingles * resemblance / (1 + resemblance))
            sizes = (common, shingles - common, shingles - common)
            rows += compare_estimates(sketcher, sizes, max(100, pairs * 200 // max(shingles, 200)), shingles)
    for containment, ratio in CONTAINMENTS:
        common = round(300 * containment)
        rows += compare_estimates(sketcher, (common, 300 - common, 300 * ratio - common), pairs, ratio)
    return rows


def banding(pairs: int) -> list[Row]:
    """Return the share of pairs with a common bucket, per scheme. Each scheme suits a different threshold."""
    rows: list[Row] = []
    default = Scheme()
    for bands, band_rows in dict.fromkeys([(default.bands, default.rows), (24, 5), (25, 4), (16, 6)]):
        scheme = Scheme(bands=bands, rows=band_rows)
        sketcher = Sketcher(scheme)
        for shingles in (100, 800):
            row: Row = {"bands": f"{bands} x {band_rows}", "shingles": shingles}
            for resemblance in (0.3, 0.5, 0.65, 0.7, 0.75, 0.8):
                common = round(2 * shingles * resemblance / (1 + resemblance))
                sides = text_pairs(np.random.default_rng(3), pairs, (common, shingles - common, shingles - common), 3)
                a, b = (cut_into_buckets(sketcher.sketch_batch(side).signatures, scheme) for side in sides)
                row[f"{resemblance}"] = float((a == b).all(axis=2).any(axis=1).mean())
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows, bands = estimates(Sketcher(Scheme()), args.pairs), banding(args.pairs)
    if args.json:
        sys.stdout.write(json.dumps({"estimates": rows, "banding": bands}, indent=1) + "\n")
        return
    print(f"{'':12}{'|a|':>7}{'|b|':>7}{'truth':>8}{'bias':>9}{'+-':>8}{'rmse':>8}{'stated':>8}")
    for row in rows:
        tail = "  exact" if row["exact"] else ""
        print(
            f"{row['figure']:12}{row['a']:7}{row['b']:7}{row['truth']:8.3f}{row['bias']:+9.4f}{row['bias_error']:8.4f}"
            f"{row['rmse']:8.4f}{row['stated']:8.4f}{tail}"
        )
    print("\nshare of pairs with a common bucket, by true resemblance")
    shown = [name for name in bands[0] if name[0] == "0"]
    print(f"{'bands x rows':14}{'shingles':>9}" + "".join(f"{name:>8}" for name in shown))
    for row in bands:
        print(f"{row['bands']:14}{row['shingles']:>9}" + "".join(f"{row[name]:8.3f}" for name in shown))
    recall = min(float(row["0.8"]) for row in bands if row["bands"] == bands[0]["bands"])
    verdict = "met" if recall >= RECALL_MIN else "MISSED"
    print(f"\nrecall 0.1 above the threshold of 0.7: {recall:.4f}, target {RECALL_MIN}: {verdict}")


if __name__ == "__main__":
    main()
