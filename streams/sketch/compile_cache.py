"""Tell whether the kernel must be compiled, which takes about ten seconds and happens once per machine."""

from __future__ import annotations

from pathlib import Path


def must_compile() -> bool:
    """Return whether numba's cache lacks the compiled kernel. This imports numba, which takes most of a second."""
    from streams.sketch import kernel

    cache_path = kernel.sketch_texts.stats.cache_path  # None if no folder for the cache is writable
    return cache_path is None or not any(Path(cache_path).glob("kernel.sketch_texts-*.nbi"))
