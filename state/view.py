"""Read access to the state, with decoded values instead of bytes, for queries, `find` and the state commands."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial

from state import analyses, meta, sweeps
from state.codecs import (
    capture_row,
    decision_row,
    document_row,
    edge_row,
    link_chunk,
    link_list,
    location_row,
    posting_list,
)
from state.codecs.text_row import TextCodec
from state.families import Family
from state.model import (
    ID_BYTES,
    PREFIX_BYTES,
    TARGET_HASH_BYTES,
    Capture,
    Decision,
    DecisionKind,
    DocumentRow,
    Edge,
    Link,
    Sweep,
    SweepState,
)
from state.rows import Row, RowReader

_U32 = struct.Struct(">I")


class View:
    """Reads values from a store: sweeps and dictionaries once per `refresh`, everything else on demand.

    Methods that take many ids or keys return their results in the same order. Cancelled sweeps are hidden.
    """

    def __init__(self, store: RowReader) -> None:
        self.store = store
        self.scheme = meta.read_scheme(store)
        self.refresh()

    def refresh(self) -> None:
        """Catch up with the writer, and read sweeps and dictionaries again."""
        self.store.catch_up()
        self._sweeps = sweeps.all_sweeps(self.store)
        self._hidden_sweeps = {
            s.number for s in self._sweeps if s.state in (SweepState.CANCELLING, SweepState.CANCELLED)
        }
        # While a sweep is being cancelled, some of its rows remain. Answers must not use these rows.
        self.has_cancelling_sweep = any(s.state is SweepState.CANCELLING for s in self._sweeps)
        self._texts = TextCodec(meta.dictionaries(self.store))
        self._captures_on_host = lru_cache(maxsize=65_536)(partial(sweeps.captures_on_host, self.store))

    def sweeps(self) -> list[Sweep]:
        """Return the open and the committed sweeps, in order of number."""
        return [sweep for sweep in self._sweeps if sweep.number not in self._hidden_sweeps]

    def captures_per_host(self, number: int, start: bytes = b"", limit: int | None = None) -> dict[bytes, int]:
        """Return the number of a sweep's captures on each host, by host key (such as `org,apache,flink)`).

        The result starts at the host key `start`, and has at most `limit` hosts.
        """
        return sweeps.captures_per_host(self.store, number, start, limit)

    def captures_on_host(self, number: int, host: bytes) -> int:
        return self._captures_on_host(number, host)

    def captures(self, key: bytes) -> list[Capture]:
        """Return all captures of one URL, in order of sweep and time."""
        return self._decode_visible(self.store.scan(Family.CAPTURES, capture_row.history_prefix(key)))

    def has_captures(self, key: bytes) -> bool:
        """Return whether a URL has captures, without reading all of them."""
        return next(self.all_captures(capture_row.history_prefix(key)), None) is not None

    def histories(self, keys: list[bytes]) -> list[list[Capture]]:
        """Return the captures of many URLs, like `captures`."""
        histories = self.store.rows_under(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
        return [self._decode_visible(rows) for rows in histories]

    def last_documents(self, keys: list[bytes]) -> list[bytes | None]:
        """Return the last document of many URLs, without decoding the rest of their captures."""
        histories = self.store.rows_under(Family.CAPTURES, [capture_row.history_prefix(key) for key in keys])
        return [self._last_document(rows) for rows in histories]

    def _last_document(self, rows: list[Row]) -> bytes | None:
        for row_key, value in reversed(rows):
            if self._hidden_sweeps and capture_row.decode_key(row_key)[1] in self._hidden_sweeps:
                continue
            if (document := capture_row.document_of(value)) is not None:
                return document
        return None

    def all_captures(self, prefix: bytes = b"") -> Iterator[Capture]:
        """Yield every capture whose URL key begins with `prefix`, in order of key, sweep and time."""
        captures = (capture_row.decode(row, value) for row, value in self.store.scan(Family.CAPTURES, prefix))
        return (capture for capture in captures if capture.sweep not in self._hidden_sweeps)

    def _decode_visible(self, rows: Iterable[Row]) -> list[Capture]:
        captures = (capture_row.decode(row, value) for row, value in rows)
        return [capture for capture in captures if capture.sweep not in self._hidden_sweeps]

    def url_keys_under(self, prefix: bytes, captures_max: int, start: bytes | None = None) -> list[bytes]:
        """Return the URL keys of the first `captures_max` captures under a key prefix, starting at the key `start`.

        This reads only row keys, so it includes the remaining captures of a sweep that is being cancelled.
        """
        row_keys = self.store.keys(Family.CAPTURES, prefix, captures_max, start)
        return list(dict.fromkeys(map(capture_row.url_key_of, row_keys)))

    def url_keys_under_each(self, prefixes: list[bytes], captures_max: int) -> list[bytes]:
        """Return the URL keys of the first `captures_max` captures under each key prefix, like `url_keys_under`."""
        results = self.store.keys_under(Family.CAPTURES, prefixes, captures_max)
        return list(dict.fromkeys(capture_row.url_key_of(row_key) for row_keys in results for row_key in row_keys))

    def document(self, document_id: bytes) -> DocumentRow | None:
        return self.documents([document_id])[0]

    def documents(self, document_ids: list[bytes]) -> list[DocumentRow | None]:
        values = self.store.get_many(Family.DOCUMENTS, document_ids)
        return [
            document_row.decode(key, value) if value is not None else None
            for key, value in zip(document_ids, values, strict=True)
        ]

    def documents_by_prefixes(self, prefixes: list[bytes]) -> list[DocumentRow]:
        """Return the documents whose ids begin with the prefixes: nearly always one per prefix."""
        results = self.store.rows_under(Family.DOCUMENTS, prefixes)
        return [document_row.decode(key, value) for rows in results for key, value in rows]

    def all_document_ids(self) -> Iterator[bytes]:
        return (key for key, _ in self.store.scan(Family.DOCUMENTS))

    def locations(self, document_ids: list[bytes], limit: int) -> list[list[bytes]]:
        """Return the keys of at most `limit` URLs at which each document was seen. The ids may be prefixes."""
        results = self.store.keys_under(Family.LOCATIONS, document_ids, limit)
        return [[key[ID_BYTES:] for key in keys] for keys in results]

    def locations_with_times(self, document_ids: list[bytes], limit: int) -> list[list[tuple[bytes, int]]]:
        """Return the URL keys of `locations`, each with the time (ms) when the document was first seen there."""
        results = self.store.rows_under(Family.LOCATIONS, document_ids, limit)
        return [[(key[ID_BYTES:], location_row.decode(value)) for key, value in rows] for rows in results]

    def all_locations(self, document_id: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield every document id, or the given one, with the key of each URL at which the document was seen."""
        return ((row[:ID_BYTES], row[ID_BYTES:]) for row, _ in self.store.scan(Family.LOCATIONS, document_id))

    def text(self, document_id: bytes) -> str | None:
        """Return the text of a document, or None if the text is not stored."""
        (stored,) = self.titles_and_texts([document_id])
        return stored[1] if stored else None

    def title(self, document_id: bytes) -> str:
        """Return the title of a document, or an empty string if it has no title or its text is not stored."""
        return self.titles([document_id])[0]

    def titles(self, document_ids: list[bytes]) -> list[str]:
        """Return the titles of many documents, like `title`."""
        values = self.store.get_many(Family.TEXTS, document_ids)
        return [self._texts.title(value) if value is not None else "" for value in values]

    def titles_and_texts(self, document_ids: list[bytes]) -> list[tuple[str, str] | None]:
        """Return the titles and texts of many documents, or None where a text is not stored."""
        values = self.store.get_many(Family.TEXTS, document_ids)
        return [self.decode_text(value) if value is not None else None for value in values]

    def decode_text(self, value: bytes) -> tuple[str, str]:
        return self._texts.decode(value)

    def bucket_postings(self, buckets: list[bytes]) -> list[list[bytes]]:
        return [posting_list.decode(value or b"") for value in self.store.get_many(Family.BANDS, buckets)]

    def sample_postings(self, shingles: list[int], limit: int) -> list[list[bytes]]:
        """Return, for each sampled shingle, the id prefixes of at most `limit` documents that contain it."""
        results = self.store.keys_under(Family.SAMPLES, [_U32.pack(shingle) for shingle in shingles], limit)
        return [[key[-PREFIX_BYTES:] for key in keys] for keys in results]

    def word_postings(self, words: list[tuple[bytes, int]], limit: int) -> list[list[bytes]]:
        """Return, for each site (4 bytes) and word hash, the id prefixes of at most `limit` documents."""
        results = self.store.keys_under(
            Family.WORDS, [site + _U32.pack(word_hash) for site, word_hash in words], limit
        )
        return [[key[-PREFIX_BYTES:] for key in keys] for keys in results]

    def link_lists(self, keys_and_ids: Collection[tuple[bytes, bytes]]) -> dict[tuple[bytes, bytes], list[bytes]]:
        """Return the ids of the chunks of lists of links, by URL key and list id. Missing lists are omitted."""
        pairs = sorted(keys_and_ids)
        values = self.store.get_many(Family.LINK_LISTS, [link_list.encode_key(key, id_) for key, id_ in pairs])
        return {pair: link_list.decode(value) for pair, value in zip(pairs, values, strict=True) if value is not None}

    def link_chunks(self, chunk_ids: Collection[bytes]) -> dict[bytes, list[Link]]:
        """Return the links of chunks by chunk id. Missing chunks are omitted."""
        ids = sorted(chunk_ids)
        values = self.store.get_many(Family.LINK_CHUNKS, ids)
        return {id_: link_chunk.decode(value) for id_, value in zip(ids, values, strict=True) if value is not None}

    def chunk_prefixes(self, url_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """Return, for each URL, the prefixes of the ids of at most `limit` chunks that may link to it."""
        results = self.store.keys_under(Family.LINK_TARGETS, [link_chunk.target_hash(key) for key in url_keys], limit)
        return [[key[TARGET_HASH_BYTES:] for key in keys] for keys in results]

    def iterate_chunk_prefixes(self, url_key: bytes, batch_size: int) -> Iterator[list[bytes]]:
        """Yield the prefixes of the ids of all chunks that may link to a URL, in batches."""
        target_hash, start = link_chunk.target_hash(url_key), None
        while keys := self.store.keys(Family.LINK_TARGETS, target_hash, batch_size, start):
            yield [key[TARGET_HASH_BYTES:] for key in keys]
            start = keys[-1] + b"\0"

    def link_chunks_by_prefixes(self, prefixes: Sequence[bytes]) -> dict[bytes, list[Link]]:
        """Return the chunks whose ids begin with the prefixes: nearly always one per prefix."""
        results = self.store.keys_under(Family.LINK_CHUNKS, prefixes, 1)  # the row with the links is the first
        return self.link_chunks({key[: link_chunk.CHUNK_ID_BYTES] for keys in results for key in keys})

    def chunk_pages(self, chunk_ids: Sequence[bytes], limit: int | None) -> list[list[bytes]]:
        """Return the URL keys of at most `limit` pages that contain each chunk, now or in an earlier version."""
        limit = None if limit is None else limit + 1  # the first row contains the links
        results = self.store.rows_under(Family.LINK_CHUNKS, chunk_ids, limit)
        start = link_chunk.CHUNK_ID_BYTES
        return [[key[start:] for key, _ in rows if len(key) > start] for rows in results]

    def root(self, document_id: bytes) -> bytes:
        """Return the root of a document's cluster, which is the document itself if it is alone."""
        return self.roots([document_id])[0]

    def roots(self, document_ids: list[bytes]) -> list[bytes]:
        """Return the roots of many documents' clusters, like `root`."""
        pointers: dict[bytes, bytes] = {}
        nodes = sorted(set(document_ids))
        while nodes:
            parents = zip(nodes, self.parents(nodes), strict=True)
            # A pointer that does not decrease could make the loops endless; `state check` reports it.
            decreasing = {node: parent for node, parent in parents if parent and parent < node}
            pointers |= decreasing
            nodes = sorted(set(decreasing.values()))
        return [_follow(pointers, document) for document in document_ids]

    def parents(self, document_ids: list[bytes]) -> list[bytes | None]:
        """Return the parent pointers of many documents; None for a root."""
        return self.store.get_many(Family.PARENTS, document_ids)

    def members(self, root: bytes) -> list[bytes]:
        """Return the documents of a cluster, the root first."""
        return [root, *(key[ID_BYTES:] for key, _ in self.store.scan(Family.MEMBERS, root))]

    def some_members(self, roots: list[bytes], limit: int) -> list[list[bytes]]:
        """Return the root of each cluster, followed by at most `limit` of its other documents."""
        members = self.store.keys_under(Family.MEMBERS, roots, limit)
        return [[root, *(key[ID_BYTES:] for key in keys)] for root, keys in zip(roots, members, strict=True)]

    def all_members(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every pair of a root and a member, in ascending order. A former root may still have members."""
        return ((key[:ID_BYTES], key[ID_BYTES:]) for key, _ in self.store.scan(Family.MEMBERS))

    def all_edges(self) -> Iterator[Edge]:
        return (edge_row.decode(key, value) for key, value in self.store.scan(Family.EDGES))

    def edges(self, document_ids: list[bytes]) -> list[list[Edge]]:
        """Return the edges that are stored under each document: those to documents with larger ids."""
        results = self.store.rows_under(Family.EDGES, document_ids)
        return [[edge_row.decode(key, value) for key, value in rows] for rows in results]

    def decisions(self, keys: list[bytes]) -> list[Decision | None]:
        """Return the editors' decisions about many URL keys; None for a URL without a decision."""
        row_keys = [decision_row.encode_key(key) for key in keys]
        rows = zip(row_keys, self.store.get_many(Family.DECISIONS, row_keys), strict=True)
        decisions = (decision_row.decode(key, value) if value is not None else None for key, value in rows)
        return [d if d is not None and d.kind is not DecisionKind.REMOVED else None for d in decisions]

    def all_decisions(self, prefix: bytes = b"") -> Iterator[Decision]:
        """Yield the decision about every URL whose key begins with `prefix`, in order of key."""
        decisions = (decision_row.decode(key, value) for key, value in self.store.scan(Family.DECISIONS, prefix))
        return (decision for decision in decisions if decision.kind is not DecisionKind.REMOVED)

    def newest_results(self, analysis: str, method: str) -> Iterator[bytes]:
        """Yield the stored results of an analysis and method, as JSON lines, for the newest sweep that has any."""
        key = analyses.newest_key(self.store, analysis, method)
        return iter(()) if key is None else analyses.lines(self.store, key)

    def threshold(self) -> float | None:
        """Return the threshold of the stored pairs; None before the first ingest. Pairs below it may be missing."""
        return meta.threshold(self.store)


def _follow(pointers: Mapping[bytes, bytes], node: bytes) -> bytes:
    while (parent := pointers.get(node)) is not None:
        node = parent
    return node
