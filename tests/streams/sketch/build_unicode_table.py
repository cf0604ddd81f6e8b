"""Builds the table of `streams.sketch.unicode_table` from the Unicode tables of the running Python.

`python -m tests.streams.sketch.build_unicode_table` writes the file; the tests compare it with what is built.
"""

from __future__ import annotations

import sys
import unicodedata
import zlib

import numpy as np
from numpy.typing import NDArray

from streams.sketch.unicode_table import (
    CLASS_SHIFT,
    CODE_POINTS,
    FILE,
    IGNORED,
    MARK,
    NEEDS_NORMALISATION,
    SEPARATOR,
    SHARP_S,
    SOLO,
    UNASSIGNED,
    WORD,
    nfkc_casefold,
    unicode_version,
)

# Scripts written without spaces: each letter is a token, so that a sentence still gives many.
_SOLO_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # iteration mark, closing mark, zero
    (0x3021, 0x3035),  # Hangzhou numerals, kana repeat marks
    (0x3038, 0x30FF),  # Hiragana, Katakana
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA9E0, 0xA9FF),  # Myanmar extended B
    (0xAA60, 0xAA7F),  # Myanmar extended A
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x1AFF0, 0x1B16F),  # Kana supplements
    (0x20000, 0x3FFFF),  # Han, extensions B and on
)
# Default-ignorable characters that are not of category Cf: fillers, joiners, variation selectors.
_IGNORED = frozenset(
    [
        0x034F,
        0x115F,
        0x1160,
        0x3164,
        0xFFA0,
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    ],
)
_ZERO_WIDTH_SPACE = 0x200B  # Cf, but it does end words


def build() -> NDArray[np.uint32]:
    """Return the table of the running Python's Unicode version (about two seconds)."""
    seconds = _second_halves()
    return np.array([_entry(point, seconds) for point in range(CODE_POINTS)], dtype=np.uint32)


def class_of(char: str) -> int:
    point, category = ord(char), unicodedata.category(char)
    if point in _IGNORED or (category == "Cf" and point != _ZERO_WIDTH_SPACE):
        return IGNORED
    if category[0] == "M":
        return MARK
    if category[0] == "N" and category != "Nl":
        return WORD
    if category[0] == "L" or category == "Nl":
        return SOLO if any(first <= point <= last for first, last in _SOLO_RANGES) else WORD
    return SEPARATOR


def _second_halves() -> frozenset[str]:
    """Return the characters that canonical composition may merge with the one before."""
    seconds = {chr(point) for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Hangul vowels and finals
    for point in range(CODE_POINTS):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            seconds.add(chr(int(parts[1], 16)))
    return frozenset(seconds)


def _entry(point: int, seconds: frozenset[str]) -> int:
    char = chr(point)
    category = unicodedata.category(char)
    if category == "Cn":
        return UNASSIGNED | point
    if category in {"Cs", "Co", "Cc"}:
        return point
    kind = class_of(char)
    if kind == IGNORED or point == SHARP_S:
        return kind << CLASS_SHIFT | point
    folded = nfkc_casefold(char)
    if all(class_of(part) == SEPARATOR for part in folded):
        return point
    hard = len(folded) != 1 or any(unicodedata.combining(c) or c in seconds for c in (char, *folded))
    if hard:
        return NEEDS_NORMALISATION | kind << CLASS_SHIFT | point
    return class_of(folded) << CLASS_SHIFT | ord(folded)


def main() -> None:
    """Write the table of the running Python beside `streams.sketch.unicode_table`."""
    table = build() - np.arange(CODE_POINTS, dtype=np.uint32)
    starts = np.flatnonzero(np.concatenate(([True], table[1:] != table[:-1])))
    lengths = np.diff(np.append(starts, CODE_POINTS))
    runs = np.concatenate((lengths, table[starts])).astype(">u4")
    version = bytes(int(n) for n in unicodedata.unidata_version.split("."))
    FILE.write_bytes(version + zlib.compress(runs.tobytes(), 9))
    sys.stderr.write(f"{FILE}: {starts.size} runs, {FILE.stat().st_size} bytes, Unicode {unicode_version()}\n")


if __name__ == "__main__":
    main()
