"""Find the entries of the word index that must be deleted when documents are removed from URLs.

An entry belongs to a document on a site, and several URLs may have added it. If the text is stored, the entries of
the URLs are computed again, and the entries that no remaining URL on the site has added are deleted. If the text is
not stored, or its words differ from those in the index (because the text was cut at a different `tokens_max`), all
entries of the site are scanned for the document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from state import meta
from state.codecs import capture_row
from state.codecs.text_row import TextCodec
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture
from state.rows import RowReader
from state.scheme import Scheme
from streams.sketch.index_terms import TEXT_WORDS_MAX, path_terms_of_pages, site_hash, text_word_limits
from streams.sketch.sketcher import Sketcher

_CHUNK = 256  # keys or documents per look-up
_TERMS_CACHED = 16  # pairs of document and site; a document can have many URLs on a site


class AffectedDocument(msgspec.Struct, frozen=True):
    """A document with captures that are removed."""

    document: bytes
    removed_urls: Mapping[bytes, set[str]]  # by URL key; other URLs with the same key may remain
    removed_keys: Collection[bytes] | None  # URL keys without remaining captures; None if the document is deleted


class StaleEntryFinder:
    """Finds the entries to delete in all removals of one command."""

    def __init__(self, reader: RowReader, scheme: Scheme, is_remaining: Callable[[Capture], bool]) -> None:
        """`is_remaining` returns whether a capture will still be stored after all removals."""
        self._reader = reader
        self._sketcher = Sketcher(scheme)
        self._is_remaining = is_remaining
        self._remaining_terms = lru_cache(maxsize=_TERMS_CACHED)(self._read_remaining_terms)

    def find(self, documents: Sequence[AffectedDocument]) -> set[bytes]:
        """Return the keys of the entries to delete for these documents."""
        stale: set[bytes] = set()
        prefixes_by_site: dict[bytes, set[bytes]] = {}  # of documents for which the site must be scanned
        documents = [item for item in documents if item.removed_urls or item.removed_keys is None]
        for item, text_words in zip(documents, self._read_text_words(documents), strict=True):
            for site in {site_hash(key) for key in item.removed_urls or _url_keys(self._reader, item.document)}:
                entries = self._stale_at_site(item, site, text_words)
                if entries is None:
                    prefixes_by_site.setdefault(site, set()).add(item.document[:PREFIX_BYTES])
                else:
                    stale |= entries
        for site, prefixes in prefixes_by_site.items():
            stale.update(row for row, _ in self._reader.scan(Family.WORDS, site) if row[-PREFIX_BYTES:] in prefixes)
        return stale

    def _stale_at_site(self, item: AffectedDocument, site: bytes, text_words: set[int] | None) -> set[bytes] | None:
        """Return the entries of a document to delete on a site, or None if the site's entries must be scanned."""
        document, removed_keys = item.document, item.removed_keys
        stays_on_site = removed_keys is not None and any(
            key not in removed_keys for key in _url_keys(self._reader, document, site)
        )
        expected_entries = sorted(_entry(site, word, document) for word in text_words or ())
        if text_words is None or None in self._reader.get_many(Family.WORDS, expected_entries):
            # While the document stays on the site, delete nothing: the entries may belong to its other URLs there.
            return set() if stays_on_site else None
        pages = [(key, url) for key, urls in item.removed_urls.items() if site_hash(key) == site for url in urls]
        removed_terms = {term for terms in path_terms_of_pages(pages, self._sketcher) for term in terms}
        remaining_terms = text_words | self._remaining_terms(document, site) if stays_on_site else set()
        return {_entry(site, term, document) for term in (removed_terms | text_words) - remaining_terms}

    def _read_remaining_terms(self, document: bytes, site: bytes) -> set[int]:
        """Return the path terms of the remaining URLs of a document on a site."""
        captures = _read_captures(self._reader, document, _url_keys(self._reader, document, site))
        pages = {(capture.key, capture.url) for capture in captures if self._is_remaining(capture)}
        return {term for terms in path_terms_of_pages(list(pages), self._sketcher) for term in terms}

    def _read_text_words(self, documents: Sequence[AffectedDocument]) -> Iterator[set[int] | None]:
        """Yield the indexed words of each document's text, or None if the text is not stored."""
        codec = TextCodec(meta.dictionaries(self._reader))
        for start in range(0, len(documents), _CHUNK):
            rows = self._reader.get_many(Family.TEXTS, [item.document for item in documents[start : start + _CHUNK]])
            texts = [codec.decode(row)[1] if row is not None else "" for row in rows]
            batch = self._sketcher.sketch_batch(texts, TEXT_WORDS_MAX)
            limits = text_word_limits(batch.shingles).tolist()
            counts = batch.indexed_words_per_text.tolist()
            for row, words, count, limit in zip(rows, batch.indexed_words, counts, limits, strict=True):
                yield set(words[: min(count, limit)].tolist()) if row is not None else None


def captures_elsewhere(reader: RowReader, document: bytes, excluded: Collection[bytes]) -> Iterator[Capture]:
    """Yield the captures of a document, except at the excluded URL keys."""
    return _read_captures(reader, document, (key for key in _url_keys(reader, document) if key not in excluded))


def _url_keys(reader: RowReader, document: bytes, site: bytes | None = None) -> Iterator[bytes]:
    keys = (row[ID_BYTES:] for row, _ in reader.scan(Family.LOCATIONS, document))
    return (key for key in keys if site is None or site_hash(key) == site)


def _read_captures(reader: RowReader, document: bytes, keys: Iterator[bytes]) -> Iterator[Capture]:
    while chunk := [capture_row.history_prefix(key) for key in islice(keys, _CHUNK)]:
        for rows in reader.rows_under(Family.CAPTURES, chunk):
            captures = (capture_row.decode(*row) for row in rows)
            yield from (capture for capture in captures if capture.document == document)


def _entry(site: bytes, term: int, document: bytes) -> bytes:
    return site + term.to_bytes(4, "big") + document[:PREFIX_BYTES]
