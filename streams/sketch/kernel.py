"""Sketch text in one pass, compiled by numba. `streams.sketch.sketcher` imports this module on first use.

    UTF-8 bytes ─▶ folded bytes and the bounds of words ─▶ token hashes + canonical bytes
                ─▶ rolling hash over w tokens ─▶ h, a mixed 64-bit value per shingle
                      ├─ v = h >> 32 identifies the shingle: counted, and sampled if v mod 2^k == 0
                      └─ (h mod 2^32) * bins: the upper half is the shingle's bin, the lower half its rank in the bin

A shingle's bin and rank therefore do not depend on whether it is sampled: signature and sample are independent.

The signature is one-permutation hashing (Li, Owen, Zhang 2012) with optimal densification (Shrivastava 2017): an
empty bin copies the winner of another bin, chosen by hashing. A bin stores 8 bits of a hash of its number and of the
winner's v, so that the bins of a one-shingle document differ. The sample is Broder's V_k(A) with the smallest k for
which at most `sample_max` shingles remain.

Loops use unsigned 64-bit integers, so numba neither wraps negative indices nor converts to floats. Words are read
in little-endian blocks of eight bytes; the compiler turns each block into one load. Functions called from Python take
plain tuples and name the fields inside, because a call with a named tuple takes three times as long.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import logging
import math
import multiprocessing
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from numba import uint8, uint32, uint64
from numpy.typing import NDArray

from streams.sketch import unicode_table
from streams.sketch.parameters import FREQUENT_WORD_DIVISOR, FREQUENT_WORD_WEIGHT, MULTIPLIER, Parameters

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG_2 = math.log1p(1.0)

_U64_MAX = np.uint64(0xFFFF_FFFF_FFFF_FFFF)  # also marks an empty bin in `winners`
_LOW_32 = np.uint64(0xFFFF_FFFF)
_SEPARATOR, _MARK, _SOLO, _IGNORED = (
    np.uint64(char_class)
    for char_class in (unicode_table.SEPARATOR, unicode_table.MARK, unicode_table.SOLO, unicode_table.IGNORED)
)
_NEEDS_NORMALISATION, _FOLD_MASK = np.uint64(unicode_table.NEEDS_NORMALISATION), np.uint64(unicode_table.FOLD_MASK)
_CLASS_SHIFT, _CLASS_MASK = np.uint64(unicode_table.CLASS_SHIFT), np.uint64(unicode_table.CLASS_MASK)
_SHARP_S = np.uint64(unicode_table.SHARP_S)
# Letters in lower case, digits unchanged, and 0 for separators, by ASCII code.
_ASCII_FOLD = np.array([ord(char.lower()) if char.isalnum() else 0 for char in map(chr, range(128))], dtype=np.uint8)


class Scratch(NamedTuple):
    """Working memory for one text at a time, except for `canonical`, which collects a batch."""

    folded: NDArray[np.uint8]
    bounds: NDArray[np.uint32]  # the start and the end of each word in `folded`
    hashes: NDArray[np.uint64]  # one hash per token
    slots: NDArray[np.uint32]  # a hash set in which 0 marks an empty slot
    counts: NDArray[np.uint32]  # one count per slot
    distinct: NDArray[np.uint32]  # the distinct shingles; later, the slots of the distinct words
    winners: NDArray[np.uint64]  # per bin: the least rank << 32 | v
    canonical: NDArray[np.uint8]


class SketchColumns(NamedTuple):
    """Sketches of n texts; `streams.sketch.sketcher.SketchBatch` describes the columns."""

    signatures: NDArray[np.uint8]
    samples: NDArray[np.uint32]
    sample_sizes: NDArray[np.int64]
    exponents: NDArray[np.int64]
    shingles: NDArray[np.int64]
    tokens: NDArray[np.int64]
    indexed_words: NDArray[np.uint32]
    indexed_words_per_text: NDArray[np.int64]


def jit(**options: Any) -> Callable[[Any], Any]:
    """Return `numba.njit`, with a cache on disk if a folder for it is writable. Otherwise, log a warning once."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # neither NUMBA_CACHE_DIR nor this folder nor the user's cache folder is writable
            _warn_without_cache()
            return numba.njit(nogil=True, **options)(function)

    return decorate


@cache
def _warn_without_cache() -> None:
    """Log that every start compiles. The processes that sketch pages leave this to their parent."""
    if multiprocessing.parent_process() is None:
        logging.getLogger(__name__).warning(
            "compiling for some seconds, as at every start, because numba cannot write its cache: set NUMBA_CACHE_DIR"
            " to a writable folder"
        )


@jit(inline="always")
def mix(h):
    """Apply Murmur3's 64-bit finaliser, so that every bit of the result depends on every bit of `h`."""
    h ^= h >> uint64(33)
    h *= uint64(0xFF51AFD7ED558CCD)
    h ^= h >> uint64(33)
    h *= uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> uint64(33))


@jit(inline="always")
def load_8_bytes(data, i):
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


@jit(inline="always")
def _copy_8_bytes(source, i, target, j):
    for n in range(8):
        target[j + uint64(n)] = source[i + uint64(n)]


@jit()
def _fold_ascii(data, start, end, scratch):
    """Do the same as `_fold`, but only for ASCII text and a quarter faster."""
    folded, bounds = scratch.folded, scratch.bounds
    size, bound_count, in_word = uint64(end - start), uint64(0), False
    for n in range(size):
        i = uint64(n)
        byte = _ASCII_FOLD[data[uint64(start) + i]]
        is_word = byte != uint8(0)
        folded[i] = byte
        bounds[bound_count] = i
        bound_count += uint64(is_word != in_word)
        in_word = is_word
    bounds[bound_count] = size
    return np.int64(bound_count + uint64(in_word)) // 2


@jit(inline="always")
def _fold_ascii_run(data, i, end, folded, length, bounds, bound_count, in_word):
    """Fold the ASCII bytes from `i` up to the first non-ASCII byte or `end`; `data[i]` must be ASCII.

    `length` bytes and `bound_count` bounds have already been written. Return the new values of `i`, `length`,
    `bound_count` and `in_word`.
    """
    byte = uint64(data[i])
    while byte < uint64(0x80):
        fold = _ASCII_FOLD[byte]
        is_word = fold != uint8(0)
        folded[length] = fold
        bounds[bound_count] = length
        bound_count += uint64(is_word != in_word)
        in_word = is_word
        length += uint64(1)
        i += uint64(1)
        if i == end:
            break
        byte = uint64(data[i])
    return i, length, bound_count, in_word


@jit()
def _fold(data, start, end, normalised, characters, scratch):
    """Fold valid UTF-8 into `scratch.folded` and fill `scratch.bounds`; return the number of words.

    A solo character and the marks that follow it form a word. Return -1 if the text must be normalised first, which
    never happens if `normalised` is true.
    """
    folded, bounds = scratch.folded, scratch.bounds
    i, end, length, bound_count = uint64(start), uint64(end), uint64(0), uint64(0)
    in_word = after_solo = False
    while i < end:
        if data[i] < uint8(0x80):
            if after_solo:
                bounds[bound_count] = length
                bound_count += uint64(1)
                in_word = after_solo = False
            i, length, bound_count, in_word = _fold_ascii_run(
                data, i, end, folded, length, bounds, bound_count, in_word
            )
            continue
        point, i = _decode_utf8(data, i)
        entry = uint64(characters[point])
        if entry & _NEEDS_NORMALISATION and not normalised:
            return -1
        char_class = entry >> _CLASS_SHIFT & _CLASS_MASK
        if char_class == _IGNORED:
            continue
        is_solo, is_mark, is_word = char_class == _SOLO, char_class == _MARK, char_class != _SEPARATOR
        if in_word and (not is_word or is_solo or (after_solo and not is_mark)):
            bounds[bound_count] = length
            bound_count += uint64(1)
            in_word = False
        after_solo = is_solo or (after_solo and is_mark)
        bounds[bound_count] = length
        bound_count += uint64(is_word and not in_word)
        in_word = is_word
        if point == _SHARP_S:
            folded[length] = folded[length + uint64(1)] = uint8(0x73)
            length += uint64(2)
        elif is_word:
            length = _encode_utf8(entry & _FOLD_MASK, folded, length)
    bounds[bound_count] = length
    return np.int64(bound_count + uint64(in_word)) // 2


@jit(inline="always")
def _decode_utf8(data, i):
    """Return the code point encoded by the two to four bytes at `i`, and the index after them."""
    first = uint64(data[i])
    size = uint64(2) + uint64(first >= uint64(0xE0)) + uint64(first >= uint64(0xF0))
    point = first & (uint64(0x7F) >> size)
    for n in range(1, size):
        point = point << uint64(6) | uint64(data[i + uint64(n)]) & uint64(0x3F)
    return point, i + size


@jit(inline="always")
def _encode_utf8(point, out, length):
    """Append a code point to the `length` bytes of `out`; return the new length."""
    if point < uint64(0x80):
        out[length] = uint8(point)
        return length + uint64(1)
    if point < uint64(0x800):
        out[length] = uint8(uint64(0xC0) | point >> uint64(6))
        length += uint64(1)
    else:
        if point < uint64(0x10000):
            out[length] = uint8(uint64(0xE0) | point >> uint64(12))
            length += uint64(1)
        else:
            out[length] = uint8(uint64(0xF0) | point >> uint64(18))
            out[length + uint64(1)] = uint8(uint64(0x80) | point >> uint64(12) & uint64(0x3F))
            length += uint64(2)
        out[length] = uint8(uint64(0x80) | point >> uint64(6) & uint64(0x3F))
        length += uint64(1)
    out[length] = uint8(uint64(0x80) | point & uint64(0x3F))
    return length + uint64(1)


@jit()
def _hash_words(scratch, count, seed, start):
    """Hash each word and copy it to `canonical[start:]`, followed by a space. Return the end of the last copy.

    Copies overrun by up to 7 bytes, which the next word overwrites.
    """
    folded, bounds, hashes, canonical = scratch.folded, scratch.bounds, scratch.hashes, scratch.canonical
    end = uint64(start)
    for t in range(count):
        i, stop = uint64(bounds[uint64(2) * uint64(t)]), uint64(bounds[uint64(2) * uint64(t) + uint64(1)])
        h = seed
        while i + uint64(8) < stop:
            _copy_8_bytes(folded, i, canonical, end)
            h = (h ^ load_8_bytes(folded, i)) * MULTIPLIER
            h ^= h >> uint64(32)
            i += uint64(8)
            end += uint64(8)
        _copy_8_bytes(folded, i, canonical, end)
        size = stop - i  # 1 to 8
        h = (h ^ (load_8_bytes(folded, i) & (_U64_MAX >> (uint64(64) - uint64(8) * size)))) * MULTIPLIER
        hashes[uint64(t)] = h ^ (h >> uint64(32))
        canonical[end + size] = uint8(0x20)
        end += size + uint64(1)
    return np.int64(end)


@jit()
def tokenise(data, start, end, is_ascii, normalised, canonical_start, parameters, scratch):
    """Split the text `data[start:end]` into tokens: fill `hashes`, and `canonical` from index `canonical_start`.

    Return the number of tokens, the end of the canonical bytes, and whether the text must be normalised first.
    """
    parameters, scratch = Parameters(*parameters), Scratch(*scratch)
    if is_ascii:
        words = _fold_ascii(data, start, end, scratch)
    else:
        words = _fold(data, start, end, normalised, parameters.characters, scratch)
    if words < 0:
        return 0, canonical_start, True
    tokens = min(words, parameters.tokens_max)
    return tokens, _hash_words(scratch, tokens, parameters.token_seed, canonical_start), False


@jit()
def count_runs(ascending):
    """Return the distinct values of an ascending array and the count of each."""
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


@jit(inline="always")
def _clear_slots(slots, values_max):
    """Clear a hash set for up to `values_max` values and return the mask of its slot numbers."""
    size = uint64(16)
    while size < uint64(2 * values_max):
        size *= uint64(2)
    slots[: np.int64(size)] = uint32(0)
    return size - uint64(1)


@jit(inline="always")
def _find_slot(slots, mask, value):
    """Return the slot for `value` and the slot's content: `value`, or 0 if the slot is empty."""
    slot = uint64(value) & mask
    content = slots[slot]
    while content != uint32(0) and content != value:
        slot = (slot + uint64(1)) & mask
        content = slots[slot]
    return slot, content


@jit(inline="always")
def _upper_32(h):
    return max(uint32(h >> uint64(32)), uint32(1))  # 0 marks an empty slot


@jit()
def hash_shingles(tokens, parameters, scratch):
    """Fill `distinct` and `winners` with the shingles of a text; return the number of distinct shingles.

    A text with fewer than `shingle_words` tokens has one shingle, made of all its tokens.
    """
    parameters, scratch = Parameters(*parameters), Scratch(*scratch)
    hashes, slots, distinct, winners = scratch.hashes, scratch.slots, scratch.distinct, scratch.winners
    shingle_words, base = parameters.shingle_words, parameters.base
    winners[:] = _U64_MAX
    if tokens == 0:
        return 0
    mask = _clear_slots(slots, tokens)
    rolling, count = uint64(0), uint64(0)
    first_end = min(shingle_words, tokens) - 1
    for n in range(first_end):
        rolling = rolling * base + hashes[uint64(n)]
    for n in range(first_end, tokens):
        rolling = rolling * base + hashes[uint64(n)]
        if n >= shingle_words:
            rolling -= parameters.leaving_power * hashes[uint64(n) - uint64(shingle_words)]
        h = mix(rolling ^ parameters.shingle_seed)
        value = _upper_32(h)
        slot, content = _find_slot(slots, mask, value)
        slots[slot] = value
        distinct[count] = value
        count += uint64(content != value)
        bin_and_rank = (h & _LOW_32) * uint64(winners.size)
        index = bin_and_rank >> uint64(32)
        winners[index] = min(winners[index], bin_and_rank << uint64(32) | uint64(value))
    return np.int64(count)


@jit()
def draw_sample(distinct, count, sample_max, sample):
    """Fill `sample` with the values divisible by 2**k, ascending, for the least k that leaves at most `sample_max`.

    Return the size of the sample, and k. The content of `distinct` is overwritten.
    """
    exponent, size = 0, uint64(count)
    while size > uint64(sample_max):
        remaining = uint64(0)
        bit = uint32(1) << uint32(exponent)
        for n in range(size):
            value = distinct[uint64(n)]
            distinct[remaining] = value
            remaining += uint64((value & bit) == uint32(0))
        size = remaining
        exponent += 1
    for n in range(size):  # sort by counting smaller values: fast for few values, because it has no branches
        value, rank = distinct[uint64(n)], uint32(0)
        for m in range(size):
            rank += uint32(distinct[uint64(m)] < value)
        sample[uint64(rank)] = value
    return np.int64(size), exponent


@jit()
def fill_signature(winners, bin_seeds, probe_seed, signature):
    """Fill `signature`; at least one bin must have a winner."""
    bins = uint64(winners.size)
    for n in range(bins):
        winner, probe = winners[uint64(n)], uint64(0)
        while winner == _U64_MAX:  # each probe finds a winner with probability 1 / bins or more, so the loop ends
            h = mix(probe_seed ^ (uint64(n) << uint64(32) | probe))
            winner = winners[(h >> uint64(32)) * bins >> uint64(32)]
            probe += uint64(1)
        hash32 = uint32(winner & _LOW_32) ^ bin_seeds[uint64(n)]
        hash32 = (hash32 ^ hash32 >> uint32(16)) * uint32(0x85EBCA6B)
        hash32 = (hash32 ^ hash32 >> uint32(13)) * uint32(0xC2B2AE35)
        signature[uint64(n)] = uint8(hash32 >> uint32(24))


@jit()
def _count_words(tokens, scratch):
    """Fill `slots` with the words, `counts` with their counts, `distinct` with their slots; return their number."""
    hashes, slots, counts, distinct = scratch.hashes, scratch.slots, scratch.counts, scratch.distinct
    mask = _clear_slots(slots, tokens)
    size = uint64(0)
    for n in range(tokens):
        word = _upper_32(hashes[uint64(n)])
        slot, content = _find_slot(slots, mask, word)
        is_new = content != word
        slots[slot] = word
        distinct[size] = uint32(slot)
        size += uint64(is_new)
        counts[slot] = counts[slot] * uint32(not is_new) + uint32(1)
    return size


@jit()
def _insert_by_rank(word, count, ordinary_count_max, ranks, chosen, size):
    """Insert a word into `chosen`, which has `size` words, if its rank is among the least; return the new size."""
    weight = FREQUENT_WORD_WEIGHT
    if count <= ordinary_count_max:
        weight = math.log1p(float(count)) if count > 1 else _LOG_2
    uniform = (float(word) + 1.0) / 4294967296.0
    is_full = size == chosen.size
    if is_full and 1.0 - uniform >= ranks[size - 1] * weight:
        return size  # -log(uniform) >= 1 - uniform, so most words need no logarithm
    rank = -math.log(uniform) / weight
    if is_full and rank >= ranks[size - 1]:
        return size
    at = size - 1 if is_full else size
    while at > 0 and ranks[at - 1] > rank:
        ranks[at], chosen[at] = ranks[at - 1], chosen[at - 1]
        at -= 1
    ranks[at], chosen[at] = rank, word
    return min(size + 1, chosen.size)


@jit()
def _choose_text_words(tokens, scratch, chosen):
    """Fill `chosen` with the words of least rank (see `index_terms`), ascending by rank; return their number."""
    distinct = _count_words(tokens, scratch)
    ordinary_count_max, ranks, size = max(3, tokens // FREQUENT_WORD_DIVISOR), np.empty(chosen.size), 0
    for n in range(distinct):
        slot = uint64(scratch.distinct[uint64(n)])
        size = _insert_by_rank(scratch.slots[slot], scratch.counts[slot], ordinary_count_max, ranks, chosen, size)
    return size


@jit()
def sketch_texts(data, offsets, is_ascii, normalised, parameters, scratch, columns, ends, must_normalise):
    """Sketch the texts `data[offsets[i]:offsets[i + 1]]` into `columns`.

    Fill `ends` with the end of each text's canonical bytes, and `must_normalise` with whether it needs normalising.
    """
    constants, buffers, columns = Parameters(*parameters), Scratch(*scratch), SketchColumns(*columns)
    end = 0
    for i in range(offsets.size - 1):
        tokens, end, must_normalise[i] = tokenise(
            data, offsets[i], offsets[i + 1], is_ascii[i], normalised, end, parameters, scratch
        )
        columns.tokens[i], ends[i] = tokens, end
        count = hash_shingles(tokens, parameters, scratch)
        columns.shingles[i] = count
        columns.sample_sizes[i], columns.exponents[i] = draw_sample(
            buffers.distinct, count, constants.sample_max, columns.samples[i]
        )
        if count:
            fill_signature(buffers.winners, constants.bin_seeds, constants.probe_seed, columns.signatures[i])
        if columns.indexed_words.shape[1]:
            columns.indexed_words_per_text[i] = _choose_text_words(tokens, buffers, columns.indexed_words[i])
