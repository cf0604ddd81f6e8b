"""The frozen table of characters: made from one Unicode version, the same on every Python."""

from __future__ import annotations

import unicodedata

import numpy as np

from streams.sketch import unicode_table as table
from tests.streams.sketch.build_unicode_table import build


def test_it_covers_all_code_points_and_folds_ascii() -> None:
    entries = table.load()
    assert entries.shape == (table.CODE_POINTS,)
    for char in map(chr, range(128)):
        entry = int(entries[ord(char)])
        kind = table.WORD if char.isalnum() else table.SEPARATOR
        assert entry >> table.CLASS_SHIFT == kind, char
        assert entry & table.FOLD_MASK == ord(char.lower() if char.isalnum() else char)


def test_it_is_what_the_tables_of_its_unicode_version_give() -> None:
    stored, built = table.load(), build()
    if unicodedata.unidata_version == table.unicode_version():
        assert np.array_equal(stored, built)
    else:  # later versions add characters; what was assigned keeps its class
        assigned = (stored & table.UNASSIGNED) == 0
        changed = np.flatnonzero(assigned & (stored != built))
        assert changed.size < 100, [hex(point) for point in changed[:20]]


def test_classes_of_some_characters() -> None:
    entries = table.load()
    kinds = {
        char: int(entries[ord(char)]) >> table.CLASS_SHIFT & 7 for char in "éß漢かไက\u0301\u00ad\u200d\u200b\u2019…_٣"
    }
    assert [char for char, kind in kinds.items() if kind == table.SOLO] == list("漢かไက")
    assert [char for char, kind in kinds.items() if kind == table.WORD] == list("éß٣")
    assert [char for char, kind in kinds.items() if kind == table.IGNORED] == ["\u00ad", "\u200d"]
    assert kinds["\u0301"] == table.MARK
    assert entries[ord("É")] & table.FOLD_MASK == ord("é")
    assert entries[0x0301] & table.NEEDS_NORMALISATION
    assert not entries[ord("é")] & table.NEEDS_NORMALISATION
