"""The class and the folded form of each character, for the tokeniser: a table frozen at one Unicode version.

Python's own tables grow with each release, so two workers on different Pythons would split the same text into
different tokens. The table is therefore stored beside this module (`unicode_table.bin`). It has the Unicode version
of the oldest supported Python, and treats characters added later as separators.

An entry is a uint32:

    bit 31     HARD: the character must be normalised together with its neighbours first
    bit 30     UNASSIGNED in this Unicode version
    bits 24-26 the class: SEPARATOR, WORD, MARK, SOLO or IGNORED
    bits 0-20  the code point that it folds to (NFKC and case folding, where that is one character)

The file: 3 bytes of Unicode version, one per number, then zlib of the runs' lengths (uint32, big-endian) followed by
the runs' values, each the entry minus its code point (so that a run of letters has one value).

`python -m tests.streams.sketch.build_unicode_table` writes the file from the tables of the running Python.
"""

from __future__ import annotations

import unicodedata
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEPARATOR, WORD, MARK, SOLO, IGNORED = range(5)
HARD = 1 << 31
UNASSIGNED = 1 << 30
CLASS_SHIFT, CLASS_MASK = 24, 7
FOLD_MASK = (1 << 21) - 1

CODE_POINTS = 0x110000
FILE = Path(__file__).with_suffix(".bin")

SHARP_S = 0xDF  # folds to "ss"; German is too common for the slow way, so the kernel writes the two letters itself


@cache
def load() -> NDArray[np.uint32]:
    """Return the table, uint32[0x110000]; it is read once per process."""
    data = FILE.read_bytes()
    runs = np.frombuffer(zlib.decompress(data[3:]), dtype=">u4").astype(np.uint32)
    lengths, values = runs[: runs.size // 2], runs[runs.size // 2 :]
    if int(lengths.sum()) != CODE_POINTS:
        raise ValueError(f"{FILE} is damaged: its runs do not cover all code points; install lostfound again")
    table = np.repeat(values, lengths)
    table += np.arange(CODE_POINTS, dtype=np.uint32)
    table.flags.writeable = False
    return table


def unicode_version() -> str:
    """Return the Unicode version of the stored table."""
    return ".".join(str(n) for n in FILE.read_bytes()[:3])


def nfkc_casefold(text: str) -> str:
    """Return the form in which texts are compared: compatibility characters resolved, case folded, composed."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # Folding may decompose and composing may give capitals: a second round settles the few that do.
    return unicodedata.normalize("NFKC", folded.casefold())
