"""Chooses the words and shingles of a document that `find` uses to look up candidates.

    words    site 4 │ word 4 │ document prefix 5     at most WORDS_MAX entries per document and URL
    samples           value 4 │ document prefix 5    at most SAMPLES_MAX entries per document

Both must be chosen alike for two documents that share words (a coordinated sample), from the document alone: how
common a word is on its site is not known while pages arrive. A word that turns out to be common is skipped when the
index is read, because a limit on its postings is reached.

- **Words**: those with the least ranks of -ln(u)/weight (weighted sampling without replacement, Efraimidis and
  Spirakis 2006), where u in (0, 1] is a function of the word only. The weight grows with the word's count, so that a
  page's subject is more likely kept than a passing word, and is small for words that fill more than one token in
  SHARE, which are mostly grammar.
- **Path words**, hashed as words of the text are, so that the words of an old path also find them in new texts.
- **The page's name**: the last segment of the path without its separators (`parent_services` and `parentservices`
  are one), as a word of its own kind: few pages of a site share it, and a page often keeps it when it moves.
- **Sampled shingles** divisible by the greatest powers of two: a long document, whose sample is thin, still holds
  those of the page that was folded into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import mmh3
import numpy as np
from numpy.typing import NDArray

from streams.urls import HOSTS_CACHED, domain_prefix, host_prefix, key_words, path_words

if TYPE_CHECKING:
    from state.model import Sketch
    from streams.sketch.sketcher import SketchBatch, Sketcher

TEXT_WORDS_MIN, TEXT_WORDS_MAX = 12, 48
_SHINGLES_A_WORD = 32
PATH_WORDS_MAX = 6
WORDS_MAX = TEXT_WORDS_MAX + PATH_WORDS_MAX + 1  # and the page's name
SAMPLES_MAX = 16

_EXTENSION = re.compile(r"\.[a-z]{2,5}\d?$")
_SEPARATORS = re.compile(r"[\W_]+")
_INDEXES = frozenset({"", "index", "default", "home", "readme", "main"})


def site_key(key: bytes) -> bytes:
    """4 bytes that name the site of a url key: its registered domain, whatever the host."""
    return _site(host_prefix(key))


@lru_cache(maxsize=HOSTS_CACHED)
def _site(host: bytes) -> bytes:
    return mmh3.hash(domain_prefix(host), signed=False).to_bytes(4, "big")


def page_name(url: str) -> str:
    """The last segment of a URL's path that says something, lower case, without separators and extension."""
    return next(_names(url), "")


def segment_names(url: str) -> list[str]:
    """Names that the segments of a URL's path would give a page, the last first, each with and without a final s.

    A page that is folded into the one above it, or into a chapter, often finds it under such a name.
    """
    forms = ((name, name.removesuffix("s"), name.removesuffix("s") + "s") for name in _names(url))
    return list(dict.fromkeys(chain.from_iterable(forms)))


def is_index(key: bytes) -> bool:
    """Whether the URLs of a key are a folder's own page: `/docs/`, `/docs/index.html`."""
    return _name(key.split(b"?", 1)[0].rpartition(b"/")[2].decode("ascii", "replace").lower()) in _INDEXES


def _names(url: str) -> Iterator[str]:
    path = url.split("#", 1)[0].split("?", 1)[0].split("://", 1)[-1].lower()
    return (name for segment in reversed(path.split("/")[1:]) if (name := _name(segment)) not in _INDEXES)


def _name(segment: str) -> str:
    return _SEPARATORS.sub("", _EXTENSION.sub("", segment))


def name_hash(name: str) -> int:
    """The word that stands for a page's name: never that of the same letters in a text."""
    return int(mmh3.hash("/" + name, signed=False))


def text_words(
    words: NDArray[np.uint32], counts: NDArray[np.int64], limit: int = TEXT_WORDS_MAX
) -> NDArray[np.uint32]:
    """The words of a text that are indexed, or the `limit` likeliest ones, from all its word hashes and their counts.

    `Sketcher.sketch_batch` makes the same choice in its one pass.
    """
    from streams.sketch.kernel import choose_words

    chosen = np.empty(limit, dtype=np.uint32)
    return chosen[: choose_words(words, counts, chosen)]


def indexed_words(shingles: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many words are indexed of texts with so many shingles: a long one is about more, and takes others in."""
    return np.clip(shingles // _SHINGLES_A_WORD, TEXT_WORDS_MIN, TEXT_WORDS_MAX)


def path_terms(url: str, sketcher: Sketcher) -> list[int]:
    """Hashes of a URL's last path words and of its page's name."""
    words = last_words(path_words(url))
    return _path_terms(words, url, sketcher.words_hashes(words))


def last_words(words: Sequence[str]) -> list[str]:
    """Those words of a path that are indexed, the last first."""
    return list(dict.fromkeys(reversed(words)))[:PATH_WORDS_MAX]


def _path_terms(words: Sequence[str], url: str, known: Mapping[str, list[int]]) -> list[int]:
    # In scripts without spaces a word has several hashes, as it is several words of a text.
    hashes = [number for word in words for number in known[word]][:PATH_WORDS_MAX]
    name = page_name(url)
    return [*hashes, name_hash(name)] if name else hashes


def page_terms(pages: Sequence[tuple[bytes, str]], sketcher: Sketcher) -> list[list[int]]:
    """What of the entries of pages, given by key and URL, is of their URLs alone."""
    words = [last_words(key_words(key)) for key, _ in pages]
    known = sketcher.words_hashes(chain.from_iterable(words))
    return [_path_terms(page_words, url, known) for page_words, (_, url) in zip(words, pages, strict=True)]


def index_words(key: bytes, url: str, chosen: NDArray[np.uint32], sketcher: Sketcher) -> bytes:
    """The entries of one page for the `words` index: site and word, 8 bytes each, without the document's prefix.

    `key` is the URL's key, `chosen` what `text_words` gives, which the sketcher has made on its way.
    """
    return index_words_of([(key, url)], chosen[None, :], np.array([len(chosen)]), sketcher)[0]


def index_words_of(
    pages: Sequence[tuple[bytes, str]], chosen: NDArray[np.uint32], counts: NDArray[np.int64], sketcher: Sketcher
) -> list[bytes]:
    """The entries of many pages, given by key and URL, as `index_words` gives them.

    `chosen` is uint32[n, words], of which the first `counts[i]` are those of page i.
    """
    terms = page_terms(pages, sketcher)
    sizes = np.fromiter(map(len, terms), dtype=np.int64, count=len(terms))
    rows = np.arange(len(pages))
    taken = np.arange(chosen.shape[1]) < counts[:, None]
    owners = np.concatenate((np.repeat(rows, np.minimum(counts, chosen.shape[1])), np.repeat(rows, sizes)))
    values = np.concatenate((chosen[taken], np.fromiter(chain.from_iterable(terms), np.uint32, int(sizes.sum()))))
    # A page's words once each and in order: pages above, words below.
    both = np.sort(owners.astype(np.uint64) << np.uint64(32) | values)
    both = both[np.flatnonzero(np.diff(both, prepend=both[:1] + np.uint64(1)))]
    owners = (both >> np.uint64(32)).astype(np.int64)
    sites = np.frombuffer(b"".join(site_key(key) for key, _ in pages), ">u4").astype(np.uint64)
    entries = (sites[owners] << np.uint64(32) | both & np.uint64(0xFFFFFFFF)).astype(">u8").tobytes()
    ends = (8 * np.searchsorted(owners, np.arange(-1, len(pages)), side="right")).tolist()
    return [entries[start:end] for start, end in pairwise(ends)]


def most_sampled(sketch: Sketch, limit: int = SAMPLES_MAX) -> list[int]:
    """The sampled shingles divisible by the greatest powers of two, those first."""
    values = sketch.sample.astype(np.int64)
    order = np.argsort(-(values & -values), kind="stable")
    return [int(value) for value in values[order[:limit]]]


def index_samples(sketch: Sketch) -> bytes:
    """The entries of one document for the `samples` index: 4 bytes each, without the document's prefix."""
    return np.array(most_sampled(sketch), ">u4").tobytes()


def index_samples_of(batch: SketchBatch) -> list[bytes]:
    """The entries of each document of a batch, as `index_samples` gives them."""
    values = batch.samples.astype(np.int64)
    filled = np.arange(values.shape[1]) < batch.sample_sizes[:, None]
    order = np.argsort(np.where(filled, -(values & -values), 1), axis=1, kind="stable")[:, :SAMPLES_MAX]
    chosen = np.take_along_axis(batch.samples, order, axis=1).astype(">u4")
    sizes = np.minimum(batch.sample_sizes, SAMPLES_MAX).tolist()
    return [row[:size].tobytes() for row, size in zip(chosen, sizes, strict=True)]
