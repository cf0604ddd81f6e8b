"""Choose the words and shingles of a document that `find` uses to look up candidates.

    words    site: 4 bytes │ word: 4 bytes │ document prefix: 5 bytes    at most WORDS_MAX per document and URL
    samples              shingle: 4 bytes │ document prefix: 5 bytes    at most SAMPLES_MAX per document

Both choices are coordinated: documents with common words or shingles tend to choose the same ones. The choice ignores
how common a word is on its site, which is unknown while pages arrive. Lookups skip words with too many postings.

- **Words** with the least ranks -ln(u)/weight (weighted sampling without replacement, Efraimidis and Spirakis 2006).
  u in (0, 1] is a hash of the word. The weight grows with the word's count, which favours the subject of the page. It
  is small for words that make up more than 1/FREQUENT_WORD_DIVISOR of the tokens: most of these are function words.
- **Path words**, hashed like words of the text, so that the words of an old path also find new texts.
- **The page name**: the last path segment without separators (`parent_services` becomes `parentservices`), hashed
  differently from text. Few pages of a site share a name, and a page often keeps its name when it moves.
- **Sampled shingles** divisible by the greatest powers of two. If a page is merged into a long document, even the
  sparse sample of that document contains these shingles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nsmallest
from itertools import chain, pairwise
from typing import TYPE_CHECKING
from urllib.parse import unquote

import mmh3
import numpy as np
from numpy.typing import NDArray

from streams.sketch.parameters import FREQUENT_WORD_DIVISOR, FREQUENT_WORD_WEIGHT
from streams.urls import HOST_CACHE_SIZE, domain_key, host_prefix, key_words, path_words

if TYPE_CHECKING:
    from state.model import Sketch
    from streams.sketch.sketcher import SketchBatch, Sketcher

TEXT_WORDS_MIN, TEXT_WORDS_MAX = 12, 48
_SHINGLES_PER_WORD = 32  # shingles of a text per indexed word
PATH_WORDS_MAX = 6
WORDS_MAX = TEXT_WORDS_MAX + PATH_WORDS_MAX + 1  # 1 for the page name
SAMPLES_MAX = 16

_EXTENSION = re.compile(r"\.[a-z]{2,5}\d?$")
_SEPARATORS = re.compile(r"[\W_]+")
_INDEX_NAMES = frozenset({"", "index", "default", "home", "readme", "main"})


def site_hash(key: bytes) -> bytes:
    """Return a 4-byte hash of the registered domain of a URL key."""
    return _site_hash(host_prefix(key))


@lru_cache(maxsize=HOST_CACHE_SIZE)
def _site_hash(prefix: bytes) -> bytes:
    return mmh3.hash(domain_key(prefix), signed=False).to_bytes(4, "big")


def page_name(url: str) -> str:
    """Return the last path segment that is not an index name, in lower case, without separators or extension."""
    return next(_meaningful_names(url), "")


def segment_name_variants(url: str) -> list[str]:
    """Return the `page_name` of each segment of a URL's path, last first, each also with a final s added or removed.

    A page that was merged into its parent page or into a chapter is often found under such a name.
    """
    forms = ((name, name.removesuffix("s"), name.removesuffix("s") + "s") for name in _meaningful_names(url))
    return list(dict.fromkeys(chain.from_iterable(forms)))


def is_index_page(key: bytes) -> bool:
    """Return whether a URL key is that of a directory's index page, such as `/docs/` or `/docs/index.html`."""
    return _to_name(key.split(b"?", 1)[0].rpartition(b"/")[2].decode("ascii", "replace").lower()) in _INDEX_NAMES


def _meaningful_names(url: str) -> Iterator[str]:
    path = url.split("#", 1)[0].split("?", 1)[0].split("://", 1)[-1].lower()
    return (name for segment in reversed(path.split("/")[1:]) if (name := _to_name(segment)) not in _INDEX_NAMES)


def _to_name(segment: str) -> str:
    # All spellings of a URL have one name: which spelling arrives first is a matter of chance.
    decoded = unquote(segment).lower() if "%" in segment else segment
    return _SEPARATORS.sub("", _EXTENSION.sub("", decoded))


def page_name_hash(name: str) -> int:
    """Return the word hash of a page name, which differs from the hash of the same letters in a text."""
    return int(mmh3.hash("/" + name, signed=False))


def choose_text_words(
    words: NDArray[np.uint32], counts: NDArray[np.int64], limit: int = TEXT_WORDS_MAX
) -> NDArray[np.uint32]:
    """Choose which words of a text to index, given their hashes and counts, in the same way as the kernel."""
    ordinary_count_max = max(3, int(counts.sum()) // FREQUENT_WORD_DIVISOR)

    def rank(word_and_count: tuple[int, int]) -> float:
        word, count = word_and_count
        weight = math.log1p(count) if count <= ordinary_count_max else FREQUENT_WORD_WEIGHT
        return -math.log((word + 1) / 2**32) / weight

    chosen = nsmallest(limit, zip(words.tolist(), counts.tolist(), strict=True), key=rank)
    return np.array([word for word, _ in chosen], dtype=np.uint32)


def text_word_limits(shingles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many words to index per text, given its number of shingles.

    Longer texts get more words, as they cover more subjects and other pages are merged into them.
    """
    return np.clip(shingles // _SHINGLES_PER_WORD, TEXT_WORDS_MIN, TEXT_WORDS_MAX)


def path_terms(url: str, sketcher: Sketcher) -> list[int]:
    """Return the hashes of a URL's last path words and of its page name."""
    words = _last_path_words(path_words(url))
    return _terms_of_path(words, url, sketcher.hash_words(words))


def _last_path_words(words: Sequence[str]) -> list[str]:
    """Return the last distinct words of a path, last first."""
    return list(dict.fromkeys(reversed(words)))[:PATH_WORDS_MAX]


def _terms_of_path(words: Sequence[str], url: str, hashes_by_word: Mapping[str, list[int]]) -> list[int]:
    # A word in a script without spaces consists of several tokens, with one hash each.
    hashes = [word_hash for word in words for word_hash in hashes_by_word[word]][:PATH_WORDS_MAX]
    name = page_name(url)
    return [*hashes, page_name_hash(name)] if name else hashes


def path_terms_of_pages(pages: Sequence[tuple[bytes, str]], sketcher: Sketcher) -> list[list[int]]:
    """Return the `path_terms` of pages given as (key, URL)."""
    words = [_last_path_words(key_words(key)) for key, _ in pages]
    hashes = sketcher.hash_words(chain.from_iterable(words))
    return [_terms_of_path(page_words, url, hashes) for page_words, (_, url) in zip(words, pages, strict=True)]


def word_entries(key: bytes, url: str, chosen: NDArray[np.uint32], sketcher: Sketcher) -> bytes:
    """Return a page's entries for the `words` index, 8 bytes each: site and word, without the document prefix.

    `chosen` contains the hashes of the words that were chosen from the text.
    """
    return word_entries_of_pages([(key, url)], chosen[None, :], np.array([len(chosen)]), sketcher)[0]


def word_entries_of_pages(
    pages: Sequence[tuple[bytes, str]], chosen: NDArray[np.uint32], counts: NDArray[np.int64], sketcher: Sketcher
) -> list[bytes]:
    """Return the `word_entries` of pages given as (key, URL); row i of `chosen` starts with `counts[i]` hashes."""
    terms = path_terms_of_pages(pages, sketcher)
    term_counts = np.fromiter(map(len, terms), dtype=np.int64, count=len(terms))
    rows = np.arange(len(pages))
    is_chosen = np.arange(chosen.shape[1]) < counts[:, None]
    page_numbers = np.concatenate((np.repeat(rows, is_chosen.sum(axis=1)), np.repeat(rows, term_counts)))
    flat_terms = np.fromiter(chain.from_iterable(terms), np.uint32, int(term_counts.sum()))
    values = np.concatenate((chosen[is_chosen], flat_terms))
    # Sort and deduplicate the words per page: the upper half of a packed value is the page, the lower half the word.
    packed = np.sort(page_numbers.astype(np.uint64) << np.uint64(32) | values)
    packed = packed[np.flatnonzero(np.diff(packed, prepend=packed[:1] + np.uint64(1)))]
    page_numbers = (packed >> np.uint64(32)).astype(np.int64)
    sites = np.frombuffer(b"".join(site_hash(key) for key, _ in pages), ">u4").astype(np.uint64)
    entries = (sites[page_numbers] << np.uint64(32) | packed & np.uint64(0xFFFFFFFF)).astype(">u8").tobytes()
    ends = (8 * np.searchsorted(page_numbers, np.arange(-1, len(pages)), side="right")).tolist()
    return [entries[start:end] for start, end in pairwise(ends)]


def most_divisible_shingles(sketch: Sketch, limit: int = SAMPLES_MAX) -> list[int]:
    """Return the sampled shingles that are divisible by the greatest powers of two, greatest power first."""
    values = sketch.sample.astype(np.int64)
    order = np.argsort(-(values & -values), kind="stable")  # v & -v: the greatest power of two that divides v
    return [int(value) for value in values[order[:limit]]]


def sample_entries(sketch: Sketch) -> bytes:
    """Return a document's entries for the `samples` index: 4 bytes each, without the document prefix."""
    return np.array(most_divisible_shingles(sketch), ">u4").tobytes()


def sample_entries_of_batch(batch: SketchBatch) -> list[bytes]:
    """Return the `sample_entries` of each document of a batch."""
    values = batch.samples.astype(np.int64)
    filled = np.arange(values.shape[1]) < batch.sample_sizes[:, None]
    order = np.argsort(np.where(filled, -(values & -values), 1), axis=1, kind="stable")[:, :SAMPLES_MAX]
    chosen = np.take_along_axis(batch.samples, order, axis=1).astype(">u4")
    sizes = np.minimum(batch.sample_sizes, SAMPLES_MAX).tolist()
    return [row[:size].tobytes() for row, size in zip(chosen, sizes, strict=True)]
