"""Limits on what RocksDB may use."""

from __future__ import annotations

import msgspec


class StoreLimits(msgspec.Struct, frozen=True):
    """What RocksDB may use, whatever the size of the corpus."""

    cache_mib: int = 256
    write_buffers_mib: int = 256  # of all families together; a reader holds what of a writer's are not in files yet,
    # and caches with half as much more
    background_jobs: int = 2
