"""Plot the classes of collections as the paper does: the number of collections against their size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from streams.analyses.collections.collection_results import ClassSize
from streams.errors import InputError

_AREA = 20.0  # of the mark of one class, in square points


def plot_classes(classes: Sequence[ClassSize], path: Path) -> None:
    """Write a PNG in which the area of a mark is proportional to the number of classes of this size.

    Raise InputError if matplotlib is not installed or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("plots need matplotlib", "install it with `pip install 'lostfound[plot]'`") from None
    counts = Counter((size.cardinality, size.size) for size in classes)
    points = sorted(counts)
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.add_subplot()
    axes.scatter(
        [cardinality for cardinality, _ in points],
        [size for _, size in points],
        s=[_AREA * counts[point] for point in points],
        alpha=0.6,
    )
    axes.set(
        xscale="log", yscale="log", xlabel="collections per class (cardinality)", ylabel="pages per collection (size)"
    )
    axes.set_title(f"{len(classes):,} classes of replicated collections")
    try:
        figure.savefig(path, format="png", dpi=100, metadata={"Software": None})
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", "choose another file") from error
