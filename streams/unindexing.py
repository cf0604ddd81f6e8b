"""Which entries of the words index go when a document leaves a URL.

An entry names a document on a site, and several URLs may have brought it. Where the text is kept, the entries of each
URL are made again, and those go that no URL which stays on the site has brought. Where it is not, or where its words
are not those in the index (it was cut at another `tokens_max`), the site's entries are searched for the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from state import meta
from state.codecs.text import TextCodec
from state.families import Family
from state.scheme import Scheme
from state.store import Store
from state.values import PREFIX_BYTES
from streams.sketching import Sketcher
from streams.terms import TEXT_WORDS_MAX, index_words, indexed_words, site_key

Urls = Mapping[bytes, set[str]]
"""URLs as captures wrote them, by url key."""


class Leaving(msgspec.Struct, frozen=True):
    """A document that leaves some URLs; `stays` are the others that hold or held it."""

    document: bytes
    leaves: Urls
    stays: Urls


def stale_words(store: Store, scheme: Scheme, leaving: Iterable[Leaving]) -> set[bytes]:
    """Keys of the entries that go."""
    stale: set[bytes] = set()
    searched: dict[bytes, set[bytes]] = {}  # by site, the prefixes of documents that leave it
    entries = _Entries(store, scheme)
    for each in leaving:
        prefix = each.document[:PREFIX_BYTES]
        for site in {site_key(key) for key in each.leaves}:
            stays = {key: urls for key, urls in each.stays.items() if site_key(key) == site}
            leaves = {key: urls for key, urls in each.leaves.items() if site_key(key) == site}
            made = entries.of(each.document, leaves)
            if made is not None:
                stale |= made - (entries.of(each.document, stays) or set())
            elif not stays:  # else they may be of those that stay, and go with the last of them
                searched.setdefault(site, set()).add(prefix)
    for site, prefixes in searched.items():
        stale.update(row for row, _ in store.scan(Family.WORDS, site) if row[-PREFIX_BYTES:] in prefixes)
    return stale


class _Entries:
    """Entries made again from kept texts."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self.store = store
        self.sketcher = Sketcher(scheme)
        self.texts = TextCodec(meta.dictionaries(store))

    def of(self, document: bytes, urls: Urls) -> set[bytes] | None:
        """Keys of the entries that these URLs brought; None when they cannot be told."""
        value = self.store.get(Family.TEXTS, document)
        if value is None:
            return None
        batch = self.sketcher.sketch_batch([self.texts.decode(value)[1]], TEXT_WORDS_MAX)
        chosen = batch.words[0, : min(batch.word_counts[0], int(indexed_words(batch.shingles)[0]))]
        prefix = document[:PREFIX_BYTES]
        made = {
            entry + prefix
            for key, written in urls.items()
            for url in written
            for entry in _split(index_words(key, url, chosen, self.sketcher))
        }
        words = {site_key(key) + int(word).to_bytes(4, "big") + prefix for key in urls for word in chosen}
        held = self.store.get_many(Family.WORDS, sorted(words))
        return made if None not in held else None


def _split(entries: bytes) -> Iterator[bytes]:
    return (entries[at : at + 8] for at in range(0, len(entries), 8))
