"""Limits on what RocksDB may use."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Limit = Annotated[int, Meta(ge=1, le=1 << 20)]  # in MiB: a terabyte


class StoreLimits(msgspec.Struct, frozen=True):
    """What RocksDB may use, whatever the size of the corpus."""

    cache_mib: Limit = 256
    write_buffers_mib: Limit = (
        256  # of all families together; a reader holds what of a writer's are not in files yet,
    )
    # and caches with half as much more
    background_jobs: Limit = 2
