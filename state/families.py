"""The column families: their rows, and how RocksDB stores them.

captures   url key ‖ 00 ‖ sweep ‖ time ‖ tiebreaker  -> status, document, raw fingerprint, redirect
documents  document id                               -> sketch, sizes, first seen
locations  document id ‖ url key                     -> first seen
bands      band ‖ bins of the band                   -> id prefixes of documents
samples    sampled shingle ‖ id prefix               -> nothing
words      site ‖ word ‖ id prefix                   -> nothing
edges      document id ‖ document id                 -> resemblance, containments
parents    document id                               -> parent
members    root ‖ document id                        -> nothing
texts      document id                               -> title, compressed text
link_lists    url key ‖ 00 ‖ list id                 -> ids of the chunks of a page's links
link_chunks   chunk id                               -> links
              chunk id ‖ url key                     -> nothing: the page contains the chunk
link_targets  hash of a url key ‖ chunk id prefix    -> nothing: the chunk contains a link to the URL
sweeps     "s" ‖ sweep                               -> name, state, times
           "h" ‖ sweep ‖ host key                    -> number of captures
meta       name                                      -> scheme, format, cursors, counters, full buckets, dictionaries
decisions  url key ‖ 00                              -> time, kind, old URL, new URL
analyses   sweep ‖ analysis ‖ method ‖ chunk         -> compressed results

`state.codecs` defines the layouts. `state.prefix_index` defines a further column family of the store.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from state.model import PREFIX_BYTES, TARGET_HASH_BYTES


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
    DECISIONS = "decisions"
    LINK_LISTS = "link_lists"
    LINK_CHUNKS = "link_chunks"
    LINK_TARGETS = "link_targets"
    ANALYSES = "analyses"


Limit = Annotated[int, Meta(ge=1, le=1 << 20)]


class StoreLimits(msgspec.Struct, frozen=True):
    """The settings that limit the memory and the threads of RocksDB."""

    cache_mib: Limit = 256
    # The limit for all column families together. A reader uses up to the same amount for rows that the writer has not
    # yet flushed to files, and adds half of this amount to its cache.
    write_buffers_mib: Limit = 256
    background_jobs: Limit = 2
    # Removals read and write in the order of keys, so they gain little from a large cache.
    removal_mib: Limit = 32

    def for_removals(self) -> StoreLimits:
        """Return the limits of a store that is opened only to delete from it."""
        return msgspec.structs.replace(
            self,
            cache_mib=min(self.cache_mib, self.removal_mib),
            write_buffers_mib=min(self.write_buffers_mib, self.removal_mib),
        )


class Storage(NamedTuple):
    """How RocksDB stores a family."""

    write_buffer_mib: int = 8
    bloom_bits: int = 0  # bits per filter entry; 0: no filter, because the family is only scanned
    prefix_bytes: int = 0  # length of the key prefixes in the filters, which speed up scans under a prefix
    whole_keys: bool = True  # whether filters contain whole keys, in addition to any prefixes
    tiered: bool = False  # whether compaction merges eight files of similar size, not one level into the next
    # "lz4+zstd" uses zstd for the last level: compared with lz4, files are 14% smaller, but writes and seeks take
    # twice as long. "zstd" uses zstd for all levels.
    compression: Literal["none", "lz4", "lz4+zstd", "zstd"] = "lz4+zstd"
    zstd_level: int = 3
    dictionary_kib: int = 0  # size of the dictionary in each file of the last level, for zstd
    block_kib: int = 16  # a read decompresses a whole block, so 4 is better for reads of single rows


_SINGLE_ROW_READS = Storage(compression="lz4", block_kib=4)  # of rows that are far apart

# For the families with the most rows, which should be compacted as rarely as possible. Only searches read them, by
# scanning under a prefix, and filters exclude most files. Six bits leave cache space for the filters of `bands`.
_WRITE_MOSTLY = _SINGLE_ROW_READS._replace(write_buffer_mib=32, bloom_bits=6, whole_keys=False, tiered=True)

_LINKS = Storage(compression="zstd", zstd_level=6)

STORAGE: dict[Family, Storage] = {family: Storage() for family in Family} | {
    # A page at a known URL costs one seek, to the newest capture. URLs share long prefixes and compress well.
    Family.CAPTURES: _SINGLE_ROW_READS._replace(write_buffer_mib=16),
    # Most ids that are looked up are absent, which the filters show. Postings contain id prefixes, so documents are
    # also looked up by prefix. Sketches are nearly random and cannot be compressed.
    Family.DOCUMENTS: _SINGLE_ROW_READS._replace(
        write_buffer_mib=32, bloom_bits=10, prefix_bytes=PREFIX_BYTES, compression="none"
    ),
    Family.LOCATIONS: _SINGLE_ROW_READS._replace(
        write_buffer_mib=16, bloom_bits=10, prefix_bytes=PREFIX_BYTES, whole_keys=False
    ),
    # A document costs one look-up per band. Nearly all looked-up buckets are absent, which the filters of the large
    # write buffer and of about five files show. Twelve bits keep false positives, each a block read, rare.
    Family.BANDS: Storage(write_buffer_mib=64, bloom_bits=12, block_kib=4),
    Family.SAMPLES: _WRITE_MOSTLY._replace(prefix_bytes=4),
    Family.WORDS: _WRITE_MOSTLY._replace(prefix_bytes=8),
    Family.PARENTS: Storage(bloom_bits=10),
    Family.DECISIONS: _SINGLE_ROW_READS._replace(bloom_bits=10),  # most URLs that are looked up have no decision
    # Links in different blocks have parts of their URLs in common. The dictionary contains these parts. A level above
    # 6 makes these files 2% smaller, but takes twice as long.
    Family.LINK_LISTS: _LINKS,
    Family.LINK_CHUNKS: _LINKS._replace(write_buffer_mib=16, bloom_bits=10, dictionary_kib=64),
    Family.LINK_TARGETS: _WRITE_MOSTLY._replace(
        prefix_bytes=TARGET_HASH_BYTES,
        write_buffer_mib=16,
        compression="zstd",
        zstd_level=6,
        dictionary_kib=64,
        block_kib=16,
    ),
    Family.ANALYSES: Storage(compression="none"),  # chunks are compressed already
    # The largest family. Its rows are read in random order, and are already compressed with a trained dictionary.
    Family.TEXTS: Storage(write_buffer_mib=32, bloom_bits=10, tiered=True, compression="none", block_kib=4),
}
