"""Limits of RocksDB's resources, which are settings."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Limit = Annotated[int, Meta(ge=1, le=1 << 20)]  # in MiB, up to a terabyte


class StoreLimits(msgspec.Struct, frozen=True):
    """What RocksDB may use, whatever the size of the corpus."""

    cache_mib: Limit = 256
    # Of all column families together. A reader needs as much for rows that the writer has not flushed to files, and
    # adds half as much to its cache.
    write_buffers_mib: Limit = 256
    background_jobs: Limit = 2
