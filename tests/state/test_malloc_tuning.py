"""Large blocks are mapped one by one, so that the kernel gets them back when they are freed."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes
from state.malloc_tuning import tune_malloc

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "mapped", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Heap
tune_malloc()
for _ in range(2):  # without tuning, glibc keeps the second block in its heap
    before = library.mallinfo2().mapped
    block = bytearray(8 << 20)
    mapped = library.mallinfo2().mapped - before
    del block
print(mapped)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc")
def test_large_blocks_are_mapped_separately() -> None:
    result = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    assert int(result.stdout) >= 8 << 20
