"""The column families: what each holds, under which key, and how it is stored.

captures   url key ‖ 00 ‖ sweep 4 ‖ time 8 ‖ 2 -> status, document, raw fingerprint, redirect
documents  document id 16                      -> sketch, sizes, first seen
locations  document id 16 ‖ url key            -> first seen
bands      band 1 ‖ rows of the signature      -> document prefixes, 5 bytes each
samples    sampled shingle 4 ‖ document prefix -> nothing
words      site 4 ‖ word 4 ‖ document prefix   -> nothing
edges      document id 16 ‖ document id 16     -> resemblance, containments
parents    document id 16                      -> parent
members    root 16 ‖ document id 16            -> nothing
texts      document id 16                      -> title and canonical text, compressed
sweeps     "s" ‖ number, "h" ‖ number ‖ host   -> the sweep, its captures a host
meta       name                                -> scheme, format, cursors, counters, full buckets, dictionaries

One more is the store's own and no Family, the list of URLs that have captures: `state/prefix_index.py`.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple

from state.model import PREFIX_BYTES


class Family(StrEnum):
    """Column families by name."""

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


class Compression(Enum):
    """How blocks are compressed."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD_BELOW = "lz4, and zstd in the last level"  # a seventh smaller, and twice as long to write and to seek in


class Storage(NamedTuple):
    """How a family is stored; why stands beside each in `STORAGE`."""

    write_buffer_mib: int = 8
    bloom_bits: int = 0  # of a filter, for each key that it knows; 0: no filter (families that are only scanned)
    prefix_bytes: int = 0  # filters know rows by so many first bytes, under which they are sought
    whole_keys: bool = True  # filters know whole keys, with their prefixes or without
    prefix_index: bool = False  # see `state.prefix_index`
    tiered: bool = False  # files are merged when there are eight of a size, not level by level
    compression: Compression = Compression.ZSTD_BELOW
    block_kib: int = 16  # unpacked whole for each row that is read: 4 where single rows far apart are asked for


# More rows than in all other families: merged as seldom as may be. Scanned by prefix only when something is searched
# for, and then filters leave few of the files. Six bits, as the cache must hold them beside the filters of `bands`.
_WRITTEN_BLINDLY = Storage(
    write_buffer_mib=32, bloom_bits=6, whole_keys=False, tiered=True, compression=Compression.LZ4, block_kib=4
)

STORAGE: dict[Family, Storage] = {
    # Read by one seek a page whose URL was there before, newest last; URLs share long prefixes and compress well.
    Family.CAPTURES: Storage(write_buffer_mib=16, prefix_index=True, compression=Compression.LZ4, block_kib=4),
    # Point look-ups of mostly absent ids: the filter answers them. Sketches are noise: compressing them is waste.
    # Postings name documents by their first bytes, far apart.
    Family.DOCUMENTS: Storage(
        write_buffer_mib=32, bloom_bits=10, prefix_bytes=PREFIX_BYTES, compression=Compression.NONE, block_kib=4
    ),
    Family.LOCATIONS: Storage(
        write_buffer_mib=16,
        bloom_bits=10,
        prefix_bytes=PREFIX_BYTES,
        whole_keys=False,
        compression=Compression.LZ4,
        block_kib=4,
    ),
    # A look-up a band and document, nearly all absent: a large buffer with a filter of its own, and filters below.
    # Twelve bits: a filter that errs costs the reading of a block, and each of some five files has one.
    Family.BANDS: Storage(write_buffer_mib=64, bloom_bits=12, block_kib=4),
    Family.SAMPLES: _WRITTEN_BLINDLY._replace(prefix_bytes=4),
    Family.WORDS: _WRITTEN_BLINDLY._replace(prefix_bytes=8),
    Family.EDGES: Storage(),
    Family.PARENTS: Storage(bloom_bits=10),
    Family.MEMBERS: Storage(),
    # Most of all bytes, in no order that anybody asks for. Compressed by a trained dictionary already.
    Family.TEXTS: Storage(write_buffer_mib=32, bloom_bits=10, tiered=True, compression=Compression.NONE, block_kib=4),
    Family.SWEEPS: Storage(),
    Family.META: Storage(),
}
