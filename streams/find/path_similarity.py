"""Compare the paths of two URLs by their words and by three-letter pieces."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from streams.urls import key_words

_PIECES_WEIGHT = 0.4


class PathFeatures(msgspec.Struct, frozen=True, gc=False):
    """Distinct words of a URL's path, and distinct three-letter pieces of the path without separators.

    Both are tuples, because the garbage collector repeatedly walks sets, at 40 ms per run for 16,000 paths.
    """

    words: tuple[str, ...]
    pieces: tuple[str, ...]


@lru_cache(maxsize=16_384)
def path_features(key: bytes) -> PathFeatures:
    """Return the cached path features of a URL key."""
    words = key_words(key)
    joined = "/" + "".join(words) + "/"
    pieces = set(map("".join, zip(joined, joined[1:], joined[2:], strict=False)))
    return PathFeatures(tuple(dict.fromkeys(words)), tuple(pieces))


def path_similarity_to(path: PathFeatures) -> Callable[[PathFeatures], float]:
    """Return a function that compares other paths with this one, from 0 to 1.

    The similarity is a weighted mean of the Jaccard index of the words and the Dice coefficient of the pieces. The
    pieces also recognise joined words, such as `parentservices`.
    """
    own_words, own_pieces = set(path.words), set(path.pieces)

    def similarity(other: PathFeatures) -> float:
        common = len(own_words.intersection(other.words))
        words = len(own_words) + len(other.words) - common
        jaccard = common / words if words else 1.0
        pieces = len(own_pieces) + len(other.pieces)
        dice = 2 * len(own_pieces.intersection(other.pieces)) / pieces if pieces else 1.0
        return (1 - _PIECES_WEIGHT) * jaccard + _PIECES_WEIGHT * dice

    return similarity
