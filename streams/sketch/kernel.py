"""Turns text into a sketch in one pass, compiled by numba; `streams.sketch.sketcher` imports this on first use.

    UTF-8 bytes ─▶ folded bytes and the bounds of words ─▶ token hashes + canonical bytes
                ─▶ rolling hash over w tokens ─▶ h, a mixed 64-bit value per shingle
                      ├─ v = h >> 32 names the shingle: counted, kept in the sample where v mod 2^k == 0
                      └─ h mod 2^32 places it: times `bins`, the upper half is its bin, the lower half its rank there

So a shingle's bin and rank say nothing about whether it is sampled, and the two estimates stay independent.

The signature is one-permutation hashing (Li, Owen, Zhang 2012) with optimal densification (Shrivastava 2017): an
empty bin takes the winner of another bin, found by hashing. A bin keeps 8 bits of a hash of (its number, the winner's
v), so that a document of one shingle does not repeat one byte. The sample is Broder's V_k(A), k the least that fits.

All loops are in unsigned 64-bit arithmetic, where numba neither wraps indices nor turns to floats, and words are read
eight bytes at a time, little end first, which the compiler makes one load.
"""

# Compiled functions take numba's types, which annotations cannot name, and columns one by one.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import uint8, uint32, uint64

if TYPE_CHECKING:
    from collections.abc import Callable

WORD_SHARE = 80  # a word that is more than one token in this many is mostly grammar
GRAMMAR_WEIGHT = 0.05
_LOG_2 = math.log1p(1.0)

_EMPTY = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_MULTIPLIER = np.uint64(0x9E37_79B9_7F4A_7C15)
_LOW_32 = np.uint64(0xFFFF_FFFF)


def jit(**options: Any) -> Callable[[Any], Any]:
    """Return `numba.njit`, with a cache on disk if a folder for one can be written."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # neither this folder nor the user's cache folder can be written
            return numba.njit(nogil=True, **options)(function)

    return decorate


@jit(inline="always")
def _mix(h):
    """Murmur3's 64-bit finaliser: every bit of the result depends on every bit of `h`."""
    h ^= h >> uint64(33)
    h *= uint64(0xFF51AFD7ED558CCD)
    h ^= h >> uint64(33)
    h *= uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> uint64(33))


@jit(inline="always")
def _load(data, i):
    low = (
        uint64(data[i])
        | uint64(data[i + uint64(1)]) << uint64(8)
        | uint64(data[i + uint64(2)]) << uint64(16)
        | uint64(data[i + uint64(3)]) << uint64(24)
    )
    high = (
        uint64(data[i + uint64(4)])
        | uint64(data[i + uint64(5)]) << uint64(8)
        | uint64(data[i + uint64(6)]) << uint64(16)
        | uint64(data[i + uint64(7)]) << uint64(24)
    )
    return low | high << uint64(32)


@jit()
def _fold_ascii(data, start, end, ascii_fold, folded, bounds):
    """Fold bytes known to be ASCII; `bounds` gets each word's start and end in turn. Returns their count."""
    count, inside = uint64(0), False
    size = uint64(end - start)
    first = uint64(start)
    for n in range(size):
        i = uint64(n)
        byte = ascii_fold[data[first + i]]
        folded[i] = byte
        word = byte != uint8(0)
        bounds[count] = i
        count += uint64(word != inside)
        inside = word
    bounds[count] = size
    return np.int64(count + uint64(inside))


@jit()
def _fold(data, start, end, normal, ascii_fold, table, folded, bounds):
    """Fold valid UTF-8, as `_fold_ascii` does. A character that is a word ends the one before it and itself, but for
    the marks that follow. Returns -1 where a character must be normalised first (never where `normal` says it is).
    """
    i, end, o, count = uint64(start), uint64(end), uint64(0), uint64(0)
    inside = after_solo = False
    while i < end:
        byte = uint64(data[i])
        if byte < uint64(0x80):
            if after_solo:
                bounds[count] = o
                count += uint64(1)
                inside = after_solo = False
            while byte < uint64(0x80):
                fold = ascii_fold[byte]
                word = fold != uint8(0)
                folded[o] = fold
                bounds[count] = o
                count += uint64(word != inside)
                inside = word
                o += uint64(1)
                i += uint64(1)
                if i == end:
                    break
                byte = uint64(data[i])
            continue
        size = uint64(2) + uint64(byte >= uint64(0xE0)) + uint64(byte >= uint64(0xF0))
        point = byte & (uint64(0x7F) >> size)
        for n in range(1, size):
            point = point << uint64(6) | uint64(data[i + uint64(n)]) & uint64(0x3F)
        i += size
        entry = uint64(table[point])
        if entry >> uint64(31) and not normal:
            return -1
        kind = entry >> uint64(24) & uint64(7)
        if kind == uint64(4):  # IGNORED
            continue
        solo, mark = kind == uint64(3), kind == uint64(2)
        word = kind != uint64(0)
        if inside and (not word or solo or (after_solo and not mark)):
            bounds[count] = o
            count += uint64(1)
            inside = False
        after_solo = solo or (after_solo and mark)
        bounds[count] = o
        count += uint64(word and not inside)
        inside = word
        if point == uint64(0xDF):  # sharp s
            folded[o] = folded[o + uint64(1)] = uint8(0x73)
            o += uint64(2)
        elif word:
            o = _put(entry & uint64(0x1FFFFF), folded, o)
    bounds[count] = o
    return np.int64(count + uint64(inside))


@jit(inline="always")
def _put(point, out, o):
    """Write a code point as UTF-8 at `o`; returns where the next one goes."""
    if point < uint64(0x80):
        out[o] = uint8(point)
        return o + uint64(1)
    if point < uint64(0x800):
        out[o] = uint8(uint64(0xC0) | point >> uint64(6))
        o += uint64(1)
    else:
        if point < uint64(0x10000):
            out[o] = uint8(uint64(0xE0) | point >> uint64(12))
            o += uint64(1)
        else:
            out[o] = uint8(uint64(0xF0) | point >> uint64(18))
            out[o + uint64(1)] = uint8(uint64(0x80) | point >> uint64(12) & uint64(0x3F))
            o += uint64(2)
        out[o] = uint8(uint64(0x80) | point >> uint64(6) & uint64(0x3F))
        o += uint64(1)
    out[o] = uint8(uint64(0x80) | point & uint64(0x3F))
    return o + uint64(1)


@jit()
def _tokens(folded, bounds, count, seed, canonical, at, hashes):
    """Hash each word, and write it at `canonical[at:]`, one space after each. Returns the end of what was written.

    Copies run up to 7 bytes over; the next word overwrites them.
    """
    o = uint64(at)
    for t in range(count):
        start, end = uint64(bounds[uint64(2) * uint64(t)]), uint64(bounds[uint64(2) * uint64(t) + uint64(1)])
        h = seed
        while start + uint64(8) < end:
            for n in range(8):
                canonical[o + uint64(n)] = folded[start + uint64(n)]
            h = (h ^ _load(folded, start)) * _MULTIPLIER
            h ^= h >> uint64(32)
            start += uint64(8)
            o += uint64(8)
        for n in range(8):
            canonical[o + uint64(n)] = folded[start + uint64(n)]
        size = end - start  # 1 to 8
        h = (h ^ (_load(folded, start) & (_EMPTY >> (uint64(64) - uint64(8) * size)))) * _MULTIPLIER
        hashes[uint64(t)] = h ^ (h >> uint64(32))
        canonical[o + size] = uint8(0x20)
        o += size + uint64(1)
    return o


@jit()
def tokenise(
    data, start, end, is_ascii, normal, tokens_max, seed, ascii_fold, table, folded, bounds, canonical, at, hashes
):
    """Canonical tokens of one text: (tokens, end of its canonical bytes, whether it must be normalised first)."""
    if is_ascii:
        edges = _fold_ascii(data, start, end, ascii_fold, folded, bounds)
    else:
        edges = _fold(data, start, end, normal, ascii_fold, table, folded, bounds)
        if edges < 0:
            return 0, at, True
    tokens = min(edges // 2, tokens_max)
    written = np.int64(_tokens(folded, bounds, tokens, seed, canonical, at, hashes))
    return tokens, written, False


@jit()
def runs(ascending):
    """Return the distinct values, and the count of each."""
    distinct = np.empty(ascending.size, np.uint32)
    counts = np.empty(ascending.size, np.int64)
    n = -1
    for i in range(ascending.size):
        if n < 0 or ascending[i] != distinct[n]:
            n += 1
            distinct[n] = ascending[i]
            counts[n] = 0
        counts[n] += 1
    return distinct[: n + 1].copy(), counts[: n + 1].copy()


@jit()
def shingle(hashes, tokens, words, base, leaving_power, seed, bins, slots, distinct, winners):
    """Values of all shingles, each once, in `distinct`; each bin's winner (rank << 32 | v) in `winners`.

    `leaving_power` is base**words mod 2**64, the factor of the token that leaves the rolling hash. A text shorter
    than a shingle gives one shingle of all its tokens. Returns the number of distinct shingles.
    """
    winners[:] = _EMPTY
    if tokens == 0:
        return 0
    size = uint64(16)
    while size < uint64(2 * tokens):
        size *= uint64(2)
    slots[: np.int64(size)] = uint32(0)
    mask = size - uint64(1)
    rolling, count = uint64(0), uint64(0)
    for n in range(min(words, tokens) - 1):
        rolling = rolling * base + hashes[uint64(n)]
    for n in range(min(words, tokens) - 1, tokens):
        i = uint64(n)
        rolling = rolling * base + hashes[i]
        if n >= words:
            rolling -= leaving_power * hashes[i - uint64(words)]
        h = _mix(rolling ^ seed)
        v = max(uint32(h >> uint64(32)), uint32(1))  # 0 marks an empty slot
        slot = uint64(v) & mask
        seen = slots[slot]
        while seen != uint32(0) and seen != v:
            slot = (slot + uint64(1)) & mask
            seen = slots[slot]
        slots[slot] = v
        distinct[count] = v
        count += uint64(seen != v)
        placed = (h & _LOW_32) * uint64(bins)
        winner = (placed << uint64(32)) | uint64(v)
        winners[placed >> uint64(32)] = min(winners[placed >> uint64(32)], winner)
    return np.int64(count)


@jit()
def take_sample(distinct, count, sample_max, sample):
    """The values of `distinct` that are 0 mod 2**k, ascending, k the least with at most `sample_max`: (size, k).

    Reorders `distinct`.
    """
    exponent, left = 0, uint64(count)
    while left > uint64(sample_max):
        remaining = uint64(0)
        bit = uint32(1) << uint32(exponent)
        for n in range(left):
            value = distinct[uint64(n)]
            distinct[remaining] = value
            remaining += uint64((value & bit) == uint32(0))
        left = remaining
        exponent += 1
    for n in range(left):  # at most sample_max: counting the smaller ones sorts without a branch
        value, rank = distinct[uint64(n)], uint32(0)
        for m in range(left):
            rank += uint32(distinct[uint64(m)] < value)
        sample[uint64(rank)] = value
    return np.int64(left), exponent


@jit()
def sign(winners, bin_seeds, seed, signature):
    """The signature's bytes; at least one bin must have a winner."""
    bins = uint64(winners.size)
    for n in range(bins):
        winner, probe = winners[uint64(n)], uint64(0)
        while winner == _EMPTY:  # ends: each probe meets a winner with a chance of at least 1 / bins
            h = _mix(seed ^ (uint64(n) << uint64(32) | probe))
            winner = winners[(h >> uint64(32)) * bins >> uint64(32)]
            probe += uint64(1)
        h32 = uint32(winner & _LOW_32) ^ bin_seeds[uint64(n)]
        h32 = (h32 ^ h32 >> uint32(16)) * uint32(0x85EBCA6B)
        h32 = (h32 ^ h32 >> uint32(13)) * uint32(0xC2B2AE35)
        signature[uint64(n)] = uint8(h32 >> uint32(24))


@jit()
def choose_words(hashes, tokens, slots, places, tally, ranks, chosen):
    """The words of a text that are indexed: those of least rank, see `index_terms`, which has the same in numpy.

    Fills `chosen`, ascending by rank, and returns how many there are.
    """
    size = uint64(16)
    while size < uint64(2 * tokens):
        size *= uint64(2)
    slots[: np.int64(size)] = uint32(0)
    mask = size - uint64(1)
    distinct = uint64(0)
    for n in range(tokens):
        word = max(uint32(hashes[uint64(n)] >> uint64(32)), uint32(1))  # 0 marks an empty slot
        slot = uint64(word) & mask
        seen = slots[slot]
        while seen != uint32(0) and seen != word:
            slot = (slot + uint64(1)) & mask
            seen = slots[slot]
        slots[slot] = word
        places[distinct] = uint32(slot)
        distinct += uint64(seen != word)
        tally[slot] = tally[slot] * uint32(seen == word) + uint32(1)
    frequent = uint32(max(3, tokens // WORD_SHARE))
    taken = 0
    for n in range(distinct):
        slot = uint64(places[uint64(n)])
        weight = GRAMMAR_WEIGHT
        if tally[slot] <= frequent:
            weight = math.log1p(float(tally[slot])) if tally[slot] > uint32(1) else _LOG_2
        chance = (float(slots[slot]) + 1.0) / 4294967296.0
        if taken == chosen.size and 1.0 - chance >= ranks[taken - 1] * weight:
            continue  # -log(chance) >= 1 - chance, so most words need no logarithm
        rank = -math.log(chance) / weight
        if taken == chosen.size and rank >= ranks[taken - 1]:
            continue
        at = taken if taken < chosen.size else taken - 1
        while at > 0 and ranks[at - 1] > rank:
            ranks[at], chosen[at] = ranks[at - 1], chosen[at - 1]
            at -= 1
        ranks[at], chosen[at] = rank, slots[slot]
        taken = min(taken + 1, chosen.size)
    return taken


@jit()
def sketch_columns(
    data, offsets, is_ascii, normal, limits, seeds, bin_seeds, ascii_fold, table,
    folded, bounds, hashes, slots, distinct, winners, canonical, tally, ranks,
    ends, signatures, samples, sizes, exponents, shingles, tokens, words, word_counts, hard,
):  # fmt: skip
    """Sketch texts `data[offsets[i]:offsets[i + 1]]` into columns. `sketcher` says what each array is."""
    shingle_words, sample_max, tokens_max = limits
    token_seed, shingle_seed, probe_seed, base, leaving_power = seeds
    at = 0
    for i in range(offsets.size - 1):
        tokens[i], at, hard[i] = tokenise(
            data, offsets[i], offsets[i + 1], is_ascii[i], normal, tokens_max, token_seed,
            ascii_fold, table, folded, bounds, canonical, at, hashes,
        )  # fmt: skip
        ends[i] = at
        count = shingle(
            hashes,
            tokens[i],
            shingle_words,
            base,
            leaving_power,
            shingle_seed,
            winners.size,
            slots,
            distinct,
            winners,
        )
        shingles[i] = count
        sizes[i], exponents[i] = take_sample(distinct, count, sample_max, samples[i])
        if count:
            sign(winners, bin_seeds, probe_seed, signatures[i])
        if words.shape[1]:
            word_counts[i] = choose_words(hashes, tokens[i], slots, distinct, tally, ranks, words[i])
