"""A reading view of the state: every question that queries ask of it, as values.

Works on a writer's store and on a reader's alike. Lists that could be long take a limit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache

from state import meta, sweeps
from state.codecs import capture_row, document_row, edge_row, location_row, posting_list
from state.codecs.text_row import TextCodec
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, DocumentRow, Edge, Sweep, SweepState
from state.rows import Row, RowReader

_U32 = struct.Struct(">I")


class View:
    """What the state holds, read as it is asked for."""

    def __init__(self, store: RowReader) -> None:
        self.store = store
        self.scheme = meta.read_scheme(store)
        self.refresh()

    def refresh(self) -> None:
        """Catch up with the writer and drop what was read of sweeps and dictionaries."""
        self.store.catch_up()
        self._sweeps = sweeps.all_sweeps(self.store)
        self._hidden = {s.number for s in self._sweeps if s.state in (SweepState.CANCELLING, SweepState.CANCELLED)}
        # What such a sweep brought is still there, in part, and must be in no answer.
        self.cancelling = any(s.state is SweepState.CANCELLING for s in self._sweeps)
        self._texts = TextCodec(meta.dictionaries(self.store))
        self._host_count = lru_cache(maxsize=65_536)(self._read_host_count)

    def sweeps(self) -> list[Sweep]:
        """Open and committed sweeps, in order of number."""
        return [sweep for sweep in self._sweeps if sweep.number not in self._hidden]

    def sweep_hosts(self, number: int, start: bytes = b"", limit: int | None = None) -> dict[bytes, int]:
        """Captures of one sweep by host key (`org,apache,flink)`), ascending, from `start` on, at most `limit`."""
        return sweeps.hosts(self.store, number, start, limit)

    def host_captures(self, number: int, host: bytes) -> int:
        """Captures of one host in one sweep."""
        return self._host_count(number, host)

    def _read_host_count(self, number: int, host: bytes) -> int:
        return sweeps.host_count(self.store, number, host)

    def captures(self, key: bytes) -> list[Capture]:
        """All captures of one URL, in order of sweep and time."""
        return self._shown(self.store.scan(Family.CAPTURES, capture_row.history_prefix(key)))

    def histories(self, keys: list[bytes]) -> list[list[Capture]]:
        """The captures of many URLs, as `captures` gives them."""
        found = self.store.scan_prefixes(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
        return [self._shown(rows) for rows in found]

    def all_captures(self) -> Iterator[Capture]:
        """Every capture, in order of key, sweep and time."""
        for row, value in self.store.scan(Family.CAPTURES):
            held = capture_row.decode(row, value)
            if held.sweep not in self._hidden:
                yield held

    def all_locations(self) -> Iterator[tuple[bytes, bytes]]:
        """Every document with the key of each URL that holds or held it, in order of both."""
        for row, _ in self.store.scan(Family.LOCATIONS):
            yield row[:ID_BYTES], row[ID_BYTES:]

    def urls_under(self, prefix: bytes, captures_max: int, start: bytes | None = None) -> list[bytes]:
        """Keys of URLs under a prefix, from `start` on, ascending: those of the first `captures_max` captures.

        Only keys are read. Captures that a cancelled sweep has left count too.
        """
        rows = self.store.keys(Family.CAPTURES, prefix, captures_max, start)
        return list(dict.fromkeys(capture_row.url_key_of(row) for row in rows))

    def document(self, document_id: bytes) -> DocumentRow | None:
        """A document by its id."""
        value = self.store.get(Family.DOCUMENTS, document_id)
        return document_row.decode(document_id, value) if value is not None else None

    def documents(self, documents: list[bytes]) -> list[DocumentRow | None]:
        """Documents by their ids, in their order."""
        found = self.store.get_many(Family.DOCUMENTS, documents)
        return [
            document_row.decode(key, row) if row is not None else None
            for key, row in zip(documents, found, strict=True)
        ]

    def documents_by_prefix(self, prefix: bytes) -> list[DocumentRow]:
        """Documents whose id begins with a posting's prefix; nearly always one."""
        (rows,) = self.store.scan_prefixes(Family.DOCUMENTS, [prefix])
        return [document_row.decode(key, value) for key, value in rows]

    def documents_by_prefixes(self, prefixes: list[bytes]) -> list[DocumentRow]:
        """The documents of many prefixes, in their order."""
        found = self.store.scan_prefixes(Family.DOCUMENTS, prefixes)
        return [document_row.decode(key, value) for rows in found for key, value in rows]

    def locations(self, documents: list[bytes], limit: int) -> list[list[bytes]]:
        """For each document, or prefix of some, the keys of at most `limit` URLs that hold or held it."""
        found = self.store.keys_under(Family.LOCATIONS, documents, limit)
        return [[key[ID_BYTES:] for key in keys] for keys in found]

    def locations_seen(self, documents: list[bytes], limit: int) -> list[list[tuple[bytes, int]]]:
        """What `locations` gives, each key with when the URL was first seen to hold the document, ms."""
        found = self.store.scan_prefixes(Family.LOCATIONS, documents, limit)
        return [[(key[ID_BYTES:], location_row.decode(seen)) for key, seen in rows] for rows in found]

    def _shown(self, rows: Iterable[Row]) -> list[Capture]:
        return [c for c in (capture_row.decode(row, value) for row, value in rows) if c.sweep not in self._hidden]

    def text(self, document_id: bytes) -> str | None:
        """A document's kept text, or None where texts are not kept."""
        (both,) = self.titles_and_texts([document_id])
        return both[1] if both else None

    def title(self, document_id: bytes) -> str:
        """A document's title; empty where it has none, or texts are not kept."""
        return self.titles([document_id])[0]

    def titles(self, documents: list[bytes]) -> list[str]:
        """The titles of many documents, in their order."""
        held = self.store.get_many(Family.TEXTS, documents)
        return [self._texts.title(value) if value is not None else "" for value in held]

    def titles_and_texts(self, documents: list[bytes]) -> list[tuple[str, str] | None]:
        """The titles and kept texts of many documents, in their order; None where none is kept."""
        held = self.store.get_many(Family.TEXTS, documents)
        return [self.decode_text(value) if value is not None else None for value in held]

    def decode_text(self, value: bytes) -> tuple[str, str]:
        """Title and text of a row of `texts`."""
        return self._texts.decode(value)

    def buckets(self, buckets: list[bytes]) -> list[list[bytes]]:
        """Prefixes of the documents of many buckets, in their order."""
        return [posting_list.decode(v) if v else [] for v in self.store.get_many(Family.BANDS, buckets)]

    def sample_postings(self, values: list[int], limit: int) -> list[list[bytes]]:
        """For each sampled shingle prefixes of the documents that it names, at most `limit`."""
        found = self.store.keys_under(Family.SAMPLES, [_U32.pack(value) for value in values], limit)
        return [[key[-PREFIX_BYTES:] for key in keys] for keys in found]

    def word_postings(self, words: list[tuple[bytes, int]], limit: int) -> list[list[bytes]]:
        """For each site (4 bytes) and word (its hash) prefixes of the documents that it names, at most `limit`."""
        found = self.store.keys_under(Family.WORDS, [site + _U32.pack(word) for site, word in words], limit)
        return [[key[-PREFIX_BYTES:] for key in keys] for keys in found]

    def root(self, document_id: bytes) -> bytes:
        """The representative of a document's cluster; itself when it is alone."""
        return self.roots([document_id])[0]

    def roots(self, documents: list[bytes]) -> list[bytes]:
        """The representatives of many documents' clusters, in their order."""
        above = {document: document for document in documents}
        climbing = list(above)
        while climbing:
            nodes = sorted({above[document] for document in climbing})
            parents = dict(zip(nodes, self.store.get_many(Family.PARENTS, nodes), strict=True))
            # A pointer that does not decrease is no pointer: `state check` names it, and nothing runs in a circle.
            climbing = [d for d in climbing if (parent := parents[above[d]]) is not None and parent < above[d]]
            above.update((d, parents[above[d]] or b"") for d in climbing)
        return [above[document] for document in documents]

    def parents(self, documents: list[bytes]) -> list[bytes | None]:
        """Return the parent pointers of many documents, in their order; None for a root."""
        return self.store.get_many(Family.PARENTS, documents)

    def all_document_ids(self) -> Iterator[bytes]:
        """Return the id of every document, ascending."""
        return (key for key, _ in self.store.scan(Family.DOCUMENTS))

    def all_edges(self) -> Iterator[Edge]:
        """Return every verified pair."""
        return (edge_row.decode(key, value) for key, value in self.store.scan(Family.EDGES))

    def all_members(self) -> Iterator[tuple[bytes, bytes]]:
        """Return every (root, member) row, ascending; a former root may still list members."""
        return ((key[:ID_BYTES], key[ID_BYTES:]) for key, _ in self.store.scan(Family.MEMBERS))

    def threshold(self) -> float | None:
        """Return the threshold of the ingest; None before the first ingest."""
        return meta.threshold(self.store)

    def members(self, root: bytes) -> list[bytes]:
        """Documents of a root's cluster, the root first."""
        return [root, *(key[ID_BYTES:] for key, _ in self.store.scan(Family.MEMBERS, root))]
