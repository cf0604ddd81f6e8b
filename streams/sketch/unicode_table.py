"""What each character is to a tokeniser: one table over all code points, frozen at one Unicode version.

Python's own tables grow with each release, so two workers on different Pythons would cut the same text into different
tokens. The table is therefore kept beside this module (`unicode_table.bin`), was made from the Unicode version of
the oldest Python that we run on, and treats characters that came later as separators.

An entry is a uint32:

    bit 31     HARD: the character must be normalised together with its neighbours first
    bit 30     UNASSIGNED in this Unicode version
    bits 24-26 the class: SEPARATOR, WORD, MARK, SOLO or IGNORED
    bits 0-20  the code point that it folds to (NFKC and case folding, where that is one character)

The file: 3 bytes of Unicode version, one a number, then zlib of the runs' lengths (uint32, big-endian) followed by
the runs' values, each the entry minus the code point it stands for (so that a run of letters has one value).

`python -m streams.sketch.unicode_table` writes the file anew from the running Python's tables.
"""

from __future__ import annotations

import sys
import unicodedata
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEPARATOR, WORD, MARK, SOLO, IGNORED = range(5)
HARD = 1 << 31
UNASSIGNED = 1 << 30
CLASS_SHIFT = 24
FOLD_MASK = (1 << 21) - 1

CODE_POINTS = 0x110000
_FILE = Path(__file__).with_suffix(".bin")

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
SHARP_S = 0xDF  # folds to "ss"; German is too common for the slow way, so the kernel writes the two letters itself
_ZERO_WIDTH_SPACE = 0x200B  # Cf, but it does end words


@cache
def load() -> NDArray[np.uint32]:
    """The table, uint32[0x110000]; read once a process."""
    data = _FILE.read_bytes()
    runs = np.frombuffer(zlib.decompress(data[3:]), dtype=">u4").astype(np.uint32)
    lengths, values = runs[: runs.size // 2], runs[runs.size // 2 :]
    if int(lengths.sum()) != CODE_POINTS:
        raise ValueError(f"{_FILE} is damaged: its runs do not cover all code points; install lostfound again")
    table = np.repeat(values, lengths)
    table += np.arange(CODE_POINTS, dtype=np.uint32)
    table.flags.writeable = False
    return table


def unicode_version() -> str:
    """The Unicode version that the stored table was made from."""
    return ".".join(str(n) for n in _FILE.read_bytes()[:3])


def nfkc_casefold(text: str) -> str:
    """The form in which texts are compared: compatibility characters resolved, case folded, composed."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # Folding may decompose and composing may give capitals: a second round settles the few that do.
    return unicodedata.normalize("NFKC", folded.casefold())


def build() -> NDArray[np.uint32]:
    """The table as the running Python's Unicode tables give it (about two seconds)."""
    seconds = _second_halves()
    return np.array([_entry(point, seconds) for point in range(CODE_POINTS)], dtype=np.uint32)


def _class(char: str) -> int:
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
    """Characters that a canonical composition may join to the one before."""
    found = {chr(point) for point in (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))}  # Hangul vowels and finals
    for point in range(CODE_POINTS):
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            found.add(chr(int(parts[1], 16)))
    return frozenset(found)


def _entry(point: int, seconds: frozenset[str]) -> int:
    char = chr(point)
    category = unicodedata.category(char)
    if category == "Cn":
        return UNASSIGNED | point
    if category in {"Cs", "Co", "Cc"}:
        return point
    kind = _class(char)
    if kind == IGNORED or point == SHARP_S:
        return kind << CLASS_SHIFT | point
    folded = nfkc_casefold(char)
    if all(_class(part) == SEPARATOR for part in folded):
        return point
    hard = len(folded) != 1 or any(unicodedata.combining(c) or c in seconds for c in (char, *folded))
    if hard:
        return HARD | kind << CLASS_SHIFT | point
    return _class(folded) << CLASS_SHIFT | ord(folded)


def main() -> None:
    """Write the table of the running Python beside this module."""
    table = build() - np.arange(CODE_POINTS, dtype=np.uint32)
    starts = np.flatnonzero(np.concatenate(([True], table[1:] != table[:-1])))
    lengths = np.diff(np.append(starts, CODE_POINTS))
    runs = np.concatenate((lengths, table[starts])).astype(">u4")
    version = bytes(int(n) for n in unicodedata.unidata_version.split("."))
    _FILE.write_bytes(version + zlib.compress(runs.tobytes(), 9))
    sys.stderr.write(f"{_FILE}: {starts.size} runs, {_FILE.stat().st_size} bytes, Unicode {unicode_version()}\n")


if __name__ == "__main__":
    main()
