"""Tell whether the kernel must be compiled, which takes about ten seconds, and only once if numba has a cache."""

from __future__ import annotations

from pathlib import Path


def describe_compilation() -> str:
    """Return what to show while the first texts wait for the compiler; empty if the compiled kernel is in the cache.

    This imports numba, which takes most of a second.
    """
    from streams.sketch import kernel

    cache_path = kernel.sketch_texts.stats.cache_path  # None if no folder for the cache is writable
    if cache_path is None:
        return "compiling"  # as at every start; the kernel has logged a warning
    return "" if any(Path(cache_path).glob("kernel.sketch_texts-*.nbi")) else "compiling, only once"
