"""Tokenise a text and hash its shingles in numpy, with the same results as the kernel but without loading numba.

This takes several times as long as the kernel, so it is only for queries about a few stored texts; see
`streams.sketch.numba_use`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streams.sketch import unicode_table
from streams.sketch.parameters import MULTIPLIER, Parameters

WORD_BYTES_MAX = 2_048  # hashing makes one pass over the arrays for every eight bytes of the longest word
# Separators become 0. Bytes from 0x80 are parts of letters.
_ASCII_FOLD = bytes(n if n >= 0x80 else ord(chr(n).lower()) if chr(n).isalnum() else 0 for n in range(256))
_REPLACED_MAX = 64  # with more distinct characters beyond ASCII, arrays are faster than replacing each of them
_MASKS = np.array([(1 << 8 * used_bytes) - 1 for used_bytes in range(9)], dtype=np.uint64)  # for blocks of 8 bytes
_NOT_REPLACED = {unicode_table.MARK, unicode_table.SOLO, unicode_table.IGNORED}
_SPACE, _SMALL_S = np.uint32(0x20), np.uint32(0x73)


def token_hashes(text: str, parameters: Parameters) -> NDArray[np.uint64] | None:
    """Return the hash of each token, in order. Return None if a word is longer than `WORD_BYTES_MAX`."""
    if (plain := _replace_characters(text, parameters.characters)) is not None:
        folded, starts, ends = _fold_ascii(plain)
    else:
        code_points, entries = _look_up(text, parameters.characters)
        if (entries & np.uint32(unicode_table.NEEDS_NORMALISATION)).any():
            code_points, entries = _look_up(unicode_table.normalise(text), parameters.characters)
        folded, starts, ends = _fold(code_points, entries)
    starts, ends = starts[: parameters.tokens_max], ends[: parameters.tokens_max]
    if (ends - starts).max(initial=0) > WORD_BYTES_MAX:
        return None
    return _hash_words(folded, starts, ends, parameters.token_seed)


def shingle_hashes(hashes: NDArray[np.uint64], parameters: Parameters) -> NDArray[np.uint32]:
    """Return the hashes of the distinct shingles of a text, ascending, given the hashes of its tokens."""
    shingle_words = min(parameters.shingle_words, hashes.size)
    if not shingle_words:
        return np.empty(0, dtype=np.uint32)
    count = hashes.size - shingle_words + 1
    h = np.zeros(count, dtype=np.uint64)
    for n in range(shingle_words):
        h = h * parameters.base + hashes[n : n + count]
    h ^= parameters.shingle_seed
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):  # Murmur3's finaliser
        h ^= h >> np.uint64(33)
        h *= factor
    h ^= h >> np.uint64(33)
    ascending, firsts = _sort(np.maximum((h >> np.uint64(32)).astype(np.uint32), np.uint32(1)))
    return ascending[firsts]


def count_distinct(values: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the distinct values, ascending, and the count of each."""
    ascending, firsts = _sort(values)
    bounds = np.append(firsts, ascending.size)
    return ascending[firsts], bounds[1:] - bounds[:-1]


def _sort(values: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the values, ascending, and the positions of the first of each run of equal values."""
    ascending = np.sort(values)
    is_first = np.ones(ascending.size, dtype=np.bool_)
    is_first[1:] = ascending[1:] != ascending[:-1]
    return ascending, np.flatnonzero(is_first)


def _replace_characters(text: str, characters: NDArray[np.uint32]) -> str | None:
    """Replace separators beyond ASCII by spaces, and letters beyond ASCII by their folded form.

    Most texts in a Latin script contain few distinct ones. Return None if there are many, or if one of them has to be
    normalised or does not always belong to the word around it.
    """
    if text.isascii():
        return text
    points = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")
    distinct = set(points[points >= 0x80].tolist())
    if len(distinct) > _REPLACED_MAX:
        return None
    for point in distinct:
        entry = int(characters[point])
        kind = entry >> unicode_table.CLASS_SHIFT & unicode_table.CLASS_MASK
        if entry & unicode_table.NEEDS_NORMALISATION or kind in _NOT_REPLACED:
            return None
        folded = chr(entry & unicode_table.FOLD_MASK) if kind == unicode_table.WORD else " "
        text = text.replace(chr(point), "ss" if point == unicode_table.SHARP_S else folded)
    return text


def _fold_ascii(text: str) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Return the folded text as UTF-8, and the start and end of each word in it."""
    folded = text.encode("utf-8", "replace").translate(_ASCII_FOLD)
    is_word = np.zeros(len(folded) + 2, dtype=np.bool_)
    is_word[1:-1] = np.frombuffer(folded, dtype=np.uint8) != 0
    bounds = np.flatnonzero(is_word[1:] != is_word[:-1])
    return folded, bounds[::2], bounds[1::2]


def _look_up(text: str, characters: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the code points of a text, and their entries in the table of characters."""
    code_points = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")
    return code_points, characters[code_points]


def _fold(
    code_points: NDArray[np.uint32], entries: NDArray[np.uint32]
) -> tuple[bytes, NDArray[np.int64], NDArray[np.int64]]:
    """Return the same as `_fold_ascii`, from code points and their table entries."""
    kinds = entries >> np.uint32(unicode_table.CLASS_SHIFT) & np.uint32(unicode_table.CLASS_MASK)
    folded = np.where(kinds == unicode_table.SEPARATOR, _SPACE, entries & np.uint32(unicode_table.FOLD_MASK))
    is_sharp_s = code_points == unicode_table.SHARP_S  # folded to "ss"
    folded[is_sharp_s] = _SMALL_S
    repeats = np.where(is_sharp_s, 2, kinds != unicode_table.IGNORED)
    folded, kinds = np.repeat(folded, repeats), np.repeat(kinds, repeats)
    is_word, is_mark = kinds != unicode_table.SEPARATOR, kinds == unicode_table.MARK
    # A word begins after a separator, at each solo character, and after a solo character with its marks.
    last_unmarked = np.maximum.accumulate(np.where(is_mark, 0, np.arange(kinds.size)))
    is_solo = kinds == unicode_table.SOLO
    continues = np.zeros(kinds.size, dtype=np.bool_)  # whether the previous character belongs to the same word
    continues[1:] = is_word[:-1] & ~(is_solo[1:] | (is_solo[last_unmarked[:-1]] & ~is_mark[1:]))
    is_end = np.ones(kinds.size, dtype=np.bool_)
    is_end[:-1] = ~(is_word[1:] & continues[1:])
    utf8_sizes = 1 + (folded >= 0x80).astype(np.int64) + (folded >= 0x800) + (folded >= 0x10000)
    ends = np.cumsum(utf8_sizes)
    data = folded.astype("<u4").tobytes().decode("utf-32-le").encode()
    return data, (ends - utf8_sizes)[is_word & ~continues], ends[is_word & is_end]


def _hash_words(
    folded: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], seed: np.uint64
) -> NDArray[np.uint64]:
    """Return the hash of each word, computed from blocks of eight bytes; the last block may be partial."""
    # A block starts at every byte.
    blocks = np.ndarray(len(folded) + 1, dtype="<u8", buffer=folded + bytes(8), strides=(1,))
    offsets = starts.copy()
    h: NDArray[np.uint64] = np.full(starts.size, seed)
    unfinished = np.flatnonzero(ends - offsets > 8)
    while unfinished.size:
        mixed = (h[unfinished] ^ blocks[offsets[unfinished]]) * MULTIPLIER
        h[unfinished] = mixed ^ mixed >> np.uint64(32)
        offsets[unfinished] += 8
        unfinished = unfinished[ends[unfinished] - offsets[unfinished] > 8]
    h = (h ^ (blocks[offsets] & _MASKS[ends - offsets])) * MULTIPLIER
    hashes: NDArray[np.uint64] = h ^ h >> np.uint64(32)
    return hashes
