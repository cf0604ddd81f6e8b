"""Load the character table of the tokeniser: each character's class and folded form in one Unicode version.

Python's tables grow with each release, so different Python versions would split the same text into different
tokens. The table in `unicode_table.bin` is frozen at the Unicode version of the oldest supported Python; characters
added later are separators. Each entry is a uint32:

    bit 31     NEEDS_NORMALISATION: the text must be normalised as a whole before its characters are folded
    bit 30     UNASSIGNED: the character is not in this Unicode version
    bits 24-26 the character's class: SEPARATOR, WORD, MARK, SOLO (a word of its own, with its marks) or IGNORED
    bits 0-20  the folded code point (NFKC and case folding, if the result is one character)

The file contains the three numbers of the Unicode version, one byte each, and then two arrays of big-endian uint32,
compressed by zlib: the lengths and the values of runs. A value is the entry minus the code point, so an alphabet can
be one run. `python -m tests.streams.sketch.build_unicode_table` writes the file from the running Python.
"""

from __future__ import annotations

import unicodedata
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEPARATOR, WORD, MARK, SOLO, IGNORED = range(5)
NEEDS_NORMALISATION = 1 << 31
UNASSIGNED = 1 << 30
CLASS_SHIFT, CLASS_MASK = 24, 7
FOLD_MASK = (1 << 21) - 1

SHARP_S = 0xDF  # the kernel folds it to "ss", because normalising all German texts would be slow

CODE_POINTS = 0x110000
FILE = Path(__file__).with_suffix(".bin")


@cache
def load() -> NDArray[np.uint32]:
    """Return the table, uint32[0x110000], reading the file once per process."""
    data = FILE.read_bytes()
    runs = np.frombuffer(zlib.decompress(data[3:]), dtype=">u4").astype(np.uint32)
    lengths, values = runs[: runs.size // 2], runs[runs.size // 2 :]
    if int(lengths.sum()) != CODE_POINTS:
        raise ValueError(f"{FILE} is damaged: its runs do not cover all code points; reinstall lostfound")
    table = np.ones(CODE_POINTS, dtype=np.uint32)  # the differences of successive entries, then the entries
    table[0] = values[0]
    table[np.cumsum(lengths[:-1])] += values[1:] - values[:-1]
    np.cumsum(table, dtype=np.uint32, out=table)
    table.flags.writeable = False
    return table


def unicode_version() -> str:
    return ".".join(str(number) for number in FILE.read_bytes()[:3])


def nfkc_casefold(text: str) -> str:
    """Return the canonical form of a text, with compatibility characters replaced, case folded and composed."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # Folding can decompose characters, and composing can create capitals. A second round corrects both.
    return unicodedata.normalize("NFKC", folded.casefold())


def normalise(text: str) -> str:
    """Compose and case-fold a text and drop ignored characters, so that the kernel can fold each character alone.

    Characters that are not assigned in the Unicode version of the table become spaces.
    """
    points = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")
    entries = load()[points]
    points = np.where(entries & UNASSIGNED, ord(" "), points)
    points = points[(entries >> CLASS_SHIFT) & CLASS_MASK != IGNORED]
    return nfkc_casefold(points.astype("<u4").tobytes().decode("utf-32-le"))
