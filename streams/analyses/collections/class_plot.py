"""Plot the number of collections per class against the size of a collection, as Cho et al. (2000) do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from streams.analyses.collections.collection_results import ClassSize
from streams.analyses.plots import new_figure, save

_MARK_AREA = 20.0  # square points per class


def plot_classes(classes: Sequence[ClassSize], path: Path) -> None:
    """Write a PNG in which the area of a mark is proportional to the number of classes of this size.

    Raise InputError if matplotlib is not installed, or if the file cannot be written.
    """
    counts = Counter((class_.cardinality, class_.size) for class_ in classes)
    figure = new_figure(6.4, 4.8)
    axes = figure.add_subplot()
    axes.scatter(
        [cardinality for cardinality, _ in counts],
        [size for _, size in counts],
        s=[_MARK_AREA * classes_of_size for classes_of_size in counts.values()],
        alpha=0.6,
    )
    if counts:  # matplotlib refuses logarithmic axes without values
        axes.set(xscale="log", yscale="log")
    axes.set(xlabel="collections per class (cardinality)", ylabel="pages per collection (size)")
    axes.set_title(f"{len(classes):,} classes of replicated collections")
    save(figure, path)
