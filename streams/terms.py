"""What goes into the indexes that `find` looks candidates up in: sampled shingles, and words of a site.

Both are coordinated samples: two documents that share much choose the same entries, without knowing of each other.
Words that turn out to be common are passed over when they are read, by the length of their postings.
"""

from __future__ import annotations

import struct

import mmh3
import numpy as np

from state.values import Sketch
from streams.sketching import Sketcher
from streams.urls import domain_prefix, path_words, url_key

SAMPLES_INDEXED = 16
WORDS_INDEXED = 18
PATH_WORDS_INDEXED = 6
_PATH = "path:"  # keeps path words apart from words of the text

_U32 = struct.Struct(">I")


def site_key(key: bytes) -> bytes:
    """4 bytes that name the site (the registered domain) of a url key."""
    return mmh3.mmh3_32_digest(domain_prefix(key))


def most_sampled(sketch: Sketch, most: int = SAMPLES_INDEXED) -> list[int]:
    """The sampled shingles divisible by the greatest powers of two: those that longer documents sample too."""
    values = sketch.sample.astype(np.int64)
    order = np.argsort(-(values & -values), kind="stable")
    return [int(v) for v in values[order[:most]]]


def index_samples(sketch: Sketch) -> bytes:
    """Entries of the samples index, 4 bytes each."""
    return np.array(most_sampled(sketch), ">u4").tobytes()


def text_words(text: str, sketcher: Sketcher, most: int = WORDS_INDEXED) -> list[int]:
    """The words of a text with the smallest hashes."""
    hashes, _ = sketcher.word_hashes(text)
    return [int(h) for h in hashes[:most]]


def url_words(url: str, most: int = PATH_WORDS_INDEXED) -> list[int]:
    """The words of a URL's path, the last first: they say most about the page."""
    words = dict.fromkeys(reversed(path_words(url)))
    return [mmh3.hash(_PATH + word, signed=False) for word in list(words)[:most]]


def index_words(url: str, text: str, sketcher: Sketcher) -> bytes:
    """Entries of the words index, 8 bytes each: site, word."""
    site = site_key(url_key(url))
    words = dict.fromkeys([*text_words(text, sketcher), *url_words(url)])
    return b"".join(site + _U32.pack(word) for word in words)
