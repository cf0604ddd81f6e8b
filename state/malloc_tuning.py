"""The C library's heap, told how to hold what RocksDB asks it for."""

from __future__ import annotations

import ctypes
from functools import cache

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of glibc's malloc.h
_ARENAS = 2
_BLOCK_BYTES = 1 << 20  # and more is mapped by itself


@cache
def tune_malloc() -> None:
    """Have the C library map filters and write buffers one by one, so that it gives them back when they go.

    glibc's threshold grows with the blocks that are freed, up to 32 MiB. They then lie in its heap between small
    ones, which at five million documents kept a third of the heap from being given back. Nor does each of RocksDB's
    threads get a heap of its own, which took 13 to 38 MiB more at the peak. It holds for the whole process; where the
    library is another, nothing is done.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)
