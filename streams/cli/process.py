"""Effects on the whole process. Only entry points call these functions; the library never does."""

from __future__ import annotations

import os


def configure() -> None:
    """Tune the C library's allocator for RocksDB and keep child processes from importing from the current folder."""
    from state.malloc_tuning import tune_malloc

    tune_malloc()
    # Worker processes would otherwise search the current folder for modules first. It may hold a crawl, and with it
    # any file that a crawled site named like a module.
    os.environ["PYTHONSAFEPATH"] = "1"
