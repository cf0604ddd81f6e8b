"""Which entries of the words index go when a document leaves a URL.

An entry names a document on a site, and several URLs may have brought it. Where the text is kept, the entries of each
URL are made again, and those go that no URL which stays on the site has brought. Where it is not, or where its words
are not those in the index (it was cut at another `tokens_max`), the site's entries are searched for the document.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from streams.sketch.index_terms import TEXT_WORDS_MAX, indexed_words, page_terms, site_key
from streams.sketch.sketcher import Sketcher

_AT_ONCE = 256
_REMEMBERED = 16  # sites of documents, of which the terms that stay may be many


class Leaving(msgspec.Struct, frozen=True):
    """A document that leaves some URLs: as captures wrote them, by url key, and the keys that it leaves altogether.

    Of a key that it stays at, one spelling may go and another stay. `left` is None where it leaves them all.
    """

    document: bytes
    urls: Mapping[bytes, set[str]]
    left: Collection[bytes] | None


class Unindexing:
    """Tells which entries go with captures, a batch of them at a time."""

    def __init__(self, store: RowReader, scheme: Scheme, stays: Callable[[Capture], bool]) -> None:
        """`stays` says which captures are there when all batches have gone."""
        self._store = store
        self._sketcher = Sketcher(scheme)
        self._stays = stays
        self._terms_that_stay = lru_cache(maxsize=_REMEMBERED)(self._read_terms)

    def stale(self, leaving: Sequence[Leaving]) -> set[bytes]:
        """Keys of the entries that go."""
        stale: set[bytes] = set()
        searched: dict[bytes, set[bytes]] = {}  # by site, the prefixes of documents that leave it
        moving = [each for each in leaving if each.urls or each.left is None]
        for each, chosen in zip(moving, _chosen(self._store, self._sketcher, moving), strict=True):
            prefix = each.document[:PREFIX_BYTES]
            for site in self._sites(each):
                at_site = self._at_site(each, site)
                if chosen is None or not _indexed(self._store, site, chosen, prefix):
                    if not at_site:  # else they may be of those that stay, and go with the last of them
                        searched.setdefault(site, set()).add(prefix)
                    continue
                pages = [(key, url) for key, urls in each.urls.items() if site_key(key) == site for url in urls]
                terms = {term for found in page_terms(pages, self._sketcher) for term in found}
                stay = chosen | self._terms_that_stay(each.document, site) if at_site else set()
                stale |= {_entry(site, word, prefix) for word in (terms | chosen) - stay}
        for site, prefixes in searched.items():
            stale.update(row for row, _ in self._store.scan(Family.WORDS, site) if row[-PREFIX_BYTES:] in prefixes)
        return stale

    def _sites(self, leaving: Leaving) -> set[bytes]:
        return {site_key(key) for key in leaving.urls or _keys(self._store, leaving.document)}

    def _at_site(self, leaving: Leaving, site: bytes) -> bool:
        left = leaving.left
        return left is not None and any(key not in left for key in _keys(self._store, leaving.document, site))

    def _read_terms(self, document: bytes, site: bytes) -> set[int]:
        """The terms of a document's URLs on a site."""
        held = _holding(self._store, document, _keys(self._store, document, site))
        pages = {(capture.key, capture.url) for capture in held if self._stays(capture)}
        return {term for found in page_terms(list(pages), self._sketcher) for term in found}


def held_elsewhere(store: RowReader, document: bytes, but: Collection[bytes]) -> Iterator[Capture]:
    """Captures that hold a document, of all its URLs but some."""
    return _holding(store, document, (key for key in _keys(store, document) if key not in but))


def _keys(store: RowReader, document: bytes, site: bytes | None = None) -> Iterator[bytes]:
    keys = (place[ID_BYTES:] for place, _ in store.scan(Family.LOCATIONS, document))
    return (key for key in keys if site is None or site_key(key) == site)


def _holding(store: RowReader, document: bytes, keys: Iterator[bytes]) -> Iterator[Capture]:
    while part := [capture_row.history_prefix(key) for key in islice(keys, _AT_ONCE)]:
        for rows in store.scan_prefixes(Family.CAPTURES, part):
            yield from (held for held in (capture_row.decode(*row) for row in rows) if held.document == document)


def _chosen(store: RowReader, sketcher: Sketcher, leaving: Sequence[Leaving]) -> Iterator[set[int] | None]:
    """The words of each document's text that are indexed; None where it is not kept."""
    texts = TextCodec(meta.dictionaries(store))
    for at in range(0, len(leaving), _AT_ONCE):
        documents = [each.document for each in leaving[at : at + _AT_ONCE]]
        values = store.get_many(Family.TEXTS, documents)
        written = [texts.decode(value)[1] if value is not None else "" for value in values]
        batch = sketcher.sketch_batch(written, TEXT_WORDS_MAX)
        counts = indexed_words(batch.shingles).tolist()
        for value, words, held, most in zip(values, batch.words, batch.word_counts.tolist(), counts, strict=True):
            yield set(words[: min(held, most)].tolist()) if value is not None else None


def _indexed(store: RowReader, site: bytes, words: Iterable[int], prefix: bytes) -> bool:
    """Whether these are the words that the index has of the document."""
    return None not in store.get_many(Family.WORDS, sorted(_entry(site, word, prefix) for word in words))


def _entry(site: bytes, word: int, prefix: bytes) -> bytes:
    return site + word.to_bytes(4, "big") + prefix
