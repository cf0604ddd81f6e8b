"""Create plots with matplotlib, which is installed only with the extra `plot`, and write them as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streams.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure. Its size is in inches. Raise InputError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("plots need matplotlib", "install it with `pip install 'lostfound[plot]'`") from None
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG. Raise InputError if the file cannot be written."""
    try:
        figure.savefig(path, format="png", dpi=100, metadata={"Software": None})
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", "choose another file") from error
