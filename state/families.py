"""The column families: their rows, and how RocksDB stores them.

captures   url key ‖ 00 ‖ sweep 4 ‖ time 8 ‖ tie 2 -> status, document, raw fingerprint, redirect
documents  document id 16                          -> sketch, sizes, first seen
locations  document id 16 ‖ url key                -> first seen
bands      band 1 ‖ bins of the band, 1 each       -> id prefixes of documents, 5 each
samples    sampled shingle 4 ‖ id prefix 5         -> nothing
words      site 4 ‖ word 4 ‖ id prefix 5           -> nothing
edges      document id 16 ‖ document id 16         -> resemblance, containments
parents    document id 16                          -> parent
members    root 16 ‖ document id 16                -> nothing
texts      document id 16                          -> title, compressed text
sweeps     "s" ‖ number, "h" ‖ number ‖ host       -> the sweep, its captures per host
meta       name                                    -> scheme, format, cursors, counters, full buckets, dictionaries

The number after a field is its length in bytes. `state.prefix_index` defines a further column family of the store.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from state.model import PREFIX_BYTES


class Family(StrEnum):
    """A column family. Changelog records number the families in this order."""

    CAPTURES = "captures"
    DOCUMENTS = "documents"
    LOCATIONS = "locations"
    BANDS = "bands"
    SAMPLES = "samples"
    WORDS = "words"
    EDGES = "edges"
    PARENTS = "parents"
    MEMBERS = "members"
    TEXTS = "texts"
    SWEEPS = "sweeps"
    META = "meta"


Limit = Annotated[int, Meta(ge=1, le=1 << 20)]


class StoreLimits(msgspec.Struct, frozen=True):
    """The settings that limit the memory and the threads of RocksDB."""

    cache_mib: Limit = 256
    # The limit for all column families together. A reader uses up to the same amount for rows that the writer has not
    # yet flushed to files, and adds half of this amount to its cache.
    write_buffers_mib: Limit = 256
    background_jobs: Limit = 2


class Storage(NamedTuple):
    """How RocksDB stores a family."""

    write_buffer_mib: int = 8
    bloom_bits: int = 0  # bits per filter entry; 0: no filter, because the family is only scanned
    prefix_bytes: int = 0  # length of the key prefixes in the filters, which speed up scans under a prefix
    whole_keys: bool = True  # filters contain whole keys, in addition to any prefixes
    tiered: bool = False  # compaction merges eight files of similar size, not each level into the next
    # "lz4+zstd" uses zstd for the last level. Files are 14% smaller, but writing and seeking take twice as long.
    compression: Literal["none", "lz4", "lz4+zstd"] = "lz4+zstd"
    block_kib: int = 16  # a read decompresses a whole block, so 4 is better for reads of single rows


_SCATTERED = Storage(compression="lz4", block_kib=4)  # for reads of single rows that are far apart

# For the families with the most rows, which should be compacted as rarely as possible. Only searches read them: they
# scan under a prefix, for which filters exclude most files. Six bits leave cache space for the filters of `bands`.
_WRITE_MOSTLY = _SCATTERED._replace(write_buffer_mib=32, bloom_bits=6, whole_keys=False, tiered=True)

STORAGE: dict[Family, Storage] = {family: Storage() for family in Family} | {
    # A page whose URL has captures costs one seek, to the newest capture. URLs share long prefixes and compress well.
    Family.CAPTURES: _SCATTERED._replace(write_buffer_mib=16),
    # Most ids that are looked up are absent, which the filters show. Postings contain prefixes of ids, so rows are
    # also scanned under random prefixes. Sketches look like noise and cannot be compressed.
    Family.DOCUMENTS: _SCATTERED._replace(
        write_buffer_mib=32, bloom_bits=10, prefix_bytes=PREFIX_BYTES, compression="none"
    ),
    Family.LOCATIONS: _SCATTERED._replace(
        write_buffer_mib=16, bloom_bits=10, prefix_bytes=PREFIX_BYTES, whole_keys=False
    ),
    # A document costs one look-up per band. Nearly always the key is absent, which the filters of the large write
    # buffer and of about five files show. Twelve bits, because a false positive in any file costs a block read.
    Family.BANDS: Storage(write_buffer_mib=64, bloom_bits=12, block_kib=4),
    Family.SAMPLES: _WRITE_MOSTLY._replace(prefix_bytes=4),
    Family.WORDS: _WRITE_MOSTLY._replace(prefix_bytes=8),
    Family.PARENTS: Storage(bloom_bits=10),
    # The largest family. Its rows are read in random order, and are already compressed with a trained dictionary.
    Family.TEXTS: Storage(write_buffer_mib=32, bloom_bits=10, tiered=True, compression="none", block_kib=4),
}
