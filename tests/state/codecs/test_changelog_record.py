"""Records of a changelog decode to the changes that they were encoded from."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.changes import Changes
from state.codecs import changelog_record
from state.families import Family

families = st.sampled_from(list(Family))
all_puts = st.dictionaries(
    families, st.dictionaries(st.binary(max_size=40), st.binary(max_size=300), min_size=1, max_size=20)
)
all_deletes = st.dictionaries(families, st.sets(st.binary(max_size=40), min_size=1, max_size=20))
kinds = st.sampled_from([changelog_record.FACTS, changelog_record.RETRACTION])


@given(all_puts, all_deletes, st.integers(64, 4096), kinds)
def test_records_decode_to_the_changes(
    puts: dict[Family, dict[bytes, bytes]], deletes: dict[Family, set[bytes]], record_bytes_max: int, kind: int
) -> None:
    changes = Changes()
    for family, keys in deletes.items():
        changes.delete_all(family, keys - puts.get(family, {}).keys())
    for family, rows in puts.items():
        changes.puts_of(family).update(rows)
    decoded = Changes()
    for record in changelog_record.encode(changes, kind=kind, record_bytes_max=record_bytes_max):
        assert len(record) <= max(record_bytes_max, 400)
        record_kind, part = changelog_record.decode(record)
        assert record_kind == kind
        decoded.update(part)
    assert non_empty(decoded.puts) == non_empty(changes.puts)
    assert non_empty(decoded.deletes) == non_empty(changes.deletes)


def non_empty(by_family: Mapping[Family, Sized]) -> dict[Family, Sized]:
    return {family: rows for family, rows in by_family.items() if len(rows)}


@given(st.binary(max_size=60))
def test_random_bytes_decode_or_raise_value_error(data: bytes) -> None:
    with suppress(ValueError):
        changelog_record.decode(b"\x01\x01" + data)


@pytest.mark.parametrize("cut", [0, 1, 5, 20, -1])
def test_a_record_that_is_cut_short_is_refused(cut: int) -> None:
    changes = Changes()
    changes.put(Family.TEXTS, b"k" * 16, b"v" * 30)
    (record,) = changelog_record.encode(changes)
    with pytest.raises(ValueError, match="truncated"):
        changelog_record.decode(record[:cut])
