"""The column families: their rows, and how RocksDB stores them.

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
sweeps     "s" ‖ number, "h" ‖ number ‖ host   -> the sweep, its captures per host
meta       name                                -> scheme, format, cursors, counters, full buckets, dictionaries

The prefix index of `captures` is one more column family, which only the store uses: see `state.prefix_index`.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import NamedTuple

from state.model import PREFIX_BYTES


class Family(StrEnum):
    """A column family; the order numbers the families in changelog records."""

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
    ZSTD_BELOW = "lz4, and zstd in the last level"  # a seventh smaller; writing and seeking take twice as long


class Storage(NamedTuple):
    """How RocksDB stores a family; `STORAGE` gives the reasons."""

    write_buffer_mib: int = 8
    bloom_bits: int = 0  # per filter entry; 0: no filter, for families that are only scanned
    prefix_bytes: int = 0  # filters contain key prefixes of this length, and seeks under a prefix use them
    whole_keys: bool = True  # filters contain whole keys, in addition to prefixes if there are any
    prefix_index: bool = False  # see `state.prefix_index`: for prefixes of any length, which filters cannot contain
    tiered: bool = False  # eight files of similar size are merged, instead of each level into the next
    compression: Compression = Compression.ZSTD_BELOW
    block_kib: int = 16  # decompressed as a whole for every row read, so 4 where reads are of single, distant rows


# More rows than all other families together, so they are merged as rarely as possible. Only searches scan them, under
# a prefix, and filters then exclude most files. Six bits, because the cache must hold them besides those of `bands`.
_WRITE_MOSTLY = Storage(
    write_buffer_mib=32, bloom_bits=6, whole_keys=False, tiered=True, compression=Compression.LZ4, block_kib=4
)

STORAGE: dict[Family, Storage] = {
    # One seek per page whose URL has captures, to the newest. URLs share long prefixes and compress well.
    Family.CAPTURES: Storage(write_buffer_mib=16, prefix_index=True, compression=Compression.LZ4, block_kib=4),
    # Point look-ups of ids that are mostly absent: the filter answers them. Sketches are noise, which does not
    # compress. Postings name documents by their first bytes, in no order.
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
    # One look-up per band and document, nearly all of absent keys: a large buffer with its own filter, and filters
    # below. Twelve bits, because a false positive costs a block read in any of some five files.
    Family.BANDS: Storage(write_buffer_mib=64, bloom_bits=12, block_kib=4),
    Family.SAMPLES: _WRITE_MOSTLY._replace(prefix_bytes=4),
    Family.WORDS: _WRITE_MOSTLY._replace(prefix_bytes=8),
    Family.EDGES: Storage(),
    Family.PARENTS: Storage(bloom_bits=10),
    Family.MEMBERS: Storage(),
    # The most bytes of all families, read in random order, and already compressed with a trained dictionary.
    Family.TEXTS: Storage(write_buffer_mib=32, bloom_bits=10, tiered=True, compression=Compression.NONE, block_kib=4),
    Family.SWEEPS: Storage(),
    Family.META: Storage(),
}
