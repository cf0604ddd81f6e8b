"""Load compiled kernels before the first question, for the whole process."""

from __future__ import annotations

import gc
from functools import cache

from state.scheme import Scheme
from streams.sketch import sketcher
from streams.sketch.index_terms import site_key
from streams.sketch.sketcher import Sketcher


@cache
def warm_up() -> None:
    """Load what the first question would wait for, and exempt it from garbage collection; call at process start.

    The compiler leaves some hundred thousand objects that live as long as the process. A full collection walks all of
    them, which added 100 ms to about every hundredth question.
    """
    example = Sketcher(Scheme())
    sketch = example.sketch("a few words are enough")
    sketcher.compare(sketch, sketch)
    example.word_hashes("a few words")
    site_key(b"org,example,www)/")
    gc.freeze()
