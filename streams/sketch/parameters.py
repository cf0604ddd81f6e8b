"""The constants of a sketcher, derived from the scheme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.sketch import unicode_table

if TYPE_CHECKING:
    from state.scheme import Scheme

MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)  # multiplier in the hash of a word
FREQUENT_WORD_DIVISOR = 80  # most words that make up more than 1/80 of the tokens are function words
FREQUENT_WORD_WEIGHT = 0.05
_U64_MASK = (1 << 64) - 1


class Parameters(NamedTuple):
    """Constants of one sketcher."""

    shingle_words: int
    sample_max: int
    tokens_max: int
    token_seed: np.uint64
    shingle_seed: np.uint64
    probe_seed: np.uint64
    base: np.uint64  # the multiplier of the rolling hash
    leaving_power: np.uint64  # base**shingle_words mod 2**64, the factor of the token that leaves the rolling hash
    bin_seeds: NDArray[np.uint32]
    characters: NDArray[np.uint32]  # see `streams.sketch.unicode_table`


def derive(scheme: Scheme, tokens_max: int) -> Parameters:
    random_numbers = _random_numbers(scheme.seed)
    token_seed, shingle_seed, probe_seed, base = (next(random_numbers) for _ in range(4))
    base |= 1  # an odd factor is invertible modulo 2**64, so the rolling hash loses no bits
    return Parameters(
        shingle_words=scheme.shingle_words,
        sample_max=scheme.sample_max,
        tokens_max=tokens_max,
        token_seed=np.uint64(token_seed),
        shingle_seed=np.uint64(shingle_seed),
        probe_seed=np.uint64(probe_seed),
        base=np.uint64(base),
        leaving_power=np.uint64(pow(base, scheme.shingle_words, 1 << 64)),
        bin_seeds=np.array([next(random_numbers) & 0xFFFF_FFFF for _ in range(scheme.bins)], dtype=np.uint32),
        characters=unicode_table.load(),
    )


def _random_numbers(seed: int) -> Iterator[int]:
    """Yield an endless sequence of 64-bit pseudo-random numbers, by SplitMix64."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & _U64_MASK
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & _U64_MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _U64_MASK
        yield z ^ z >> 31
