"""Limits on what RocksDB may use."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Limit = Annotated[int, Meta(ge=1, le=1 << 20)]  # in MiB: a terabyte


class StoreLimits(msgspec.Struct, frozen=True):
    """What RocksDB may use, whatever the size of the corpus."""

    cache_mib: Limit = 256
    # Of all families together. A reader keeps the part of a writer's buffers that is not in files yet, and up to half
    # as much again in caches.
    write_buffers_mib: Limit = 256
    background_jobs: Limit = 2
