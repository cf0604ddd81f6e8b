"""Decide when to load numba: at once to sketch new texts, but for queries only when numpy would be slower.

Loading numba and the compiled functions takes more than half a second of CPU. A query about a few documents needs
less in numpy. The work of a query is known only at its end, so the rule is that of the ski rental problem: work in
numpy until this has taken as long as loading would, then load. In total, this takes at most twice the time of the
better choice.
"""

from __future__ import annotations

import sys

LOAD_SECONDS = 0.6  # CPU time to load numba and the compiled functions from the cache, measured on one core at 3 GHz

_numpy_seconds = 0.0


def is_loaded() -> bool:
    """Return whether the compiled functions are loaded, so that using them has no further cost."""
    return "streams.sketch.kernel" in sys.modules


def is_worthwhile(numpy_seconds: float) -> bool:
    """Return whether to use numba for work that takes about `numpy_seconds` of CPU time in numpy.

    The answer is yes once the seconds of all calls in this process add up to `LOAD_SECONDS`.
    """
    global _numpy_seconds  # noqa: PLW0603 - the cost of loading arises once per process
    if is_loaded():
        return True
    _numpy_seconds += numpy_seconds
    return _numpy_seconds >= LOAD_SECONDS
