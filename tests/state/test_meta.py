"""Facts about the state itself, and schemes and formats that do not match."""

from __future__ import annotations

import msgspec
import pytest

from state import meta
from state.changes import Changes
from state.errors import StateIncompatible
from state.families import Family
from state.scheme import Scheme
from state.store import Store


def test_a_new_state_records_the_first_scheme(store: Store) -> None:
    wanted = Scheme(bands=7, seed=5)
    assert meta.read_scheme(store) == Scheme()
    assert list(store.scan(Family.META)) == [], "reading claims nothing"
    assert meta.claim_scheme(store, wanted) == wanted
    assert meta.read_scheme(store) == wanted


def test_another_scheme_is_refused_with_the_difference(store: Store) -> None:
    stored, wanted = Scheme(), Scheme(bands=12, shingle_words=5, seed=918_273_645_546)
    meta.claim_scheme(store, stored)
    with pytest.raises(StateIncompatible) as refused:
        meta.claim_scheme(store, wanted)
    message = str(refused.value)
    assert stored.id in message
    assert wanted.id in message
    assert f"bands {stored.bands} instead of 12" in message
    assert "a different seed" in message
    assert "918273645546" not in message, "a private seed stays private"


def test_a_newer_format_is_refused(store: Store) -> None:
    meta.claim_scheme(store, Scheme())
    changes = Changes()
    changes.put(Family.META, b"format", b"2")
    store.write(changes)
    with pytest.raises(
        StateIncompatible, match="has format 2, but this version of lostfound reads only formats up to 1"
    ):
        meta.read_scheme(store)
    with pytest.raises(
        StateIncompatible, match="has format 2, but this version of lostfound reads only formats up to 1"
    ):
        meta.claim_scheme(store, Scheme())


@pytest.mark.parametrize("field", Scheme.__struct_fields__)
def test_the_id_changes_with_every_field(field: str) -> None:
    value = getattr(Scheme(), field)
    other = msgspec.structs.replace(Scheme(), **{field: value + ("x" if isinstance(value, str) else 1)})
    assert other.id != Scheme().id
    assert len(other.id) == 16


def test_facts_are_read_as_they_were_written(store: Store) -> None:
    changes = Changes()
    meta.put_counters(changes, {"pages": 3})
    meta.put_cursor(changes, "1:abc", b"here")
    meta.put_dictionary(changes, 1, b"words")
    store.write(changes)
    assert meta.counters(store) == {"pages": 3}
    assert meta.cursor(store, "1:abc") == b"here"
    assert meta.cursor(store, "1:ab") is None
    assert meta.dictionaries(store) == {1: b"words"}
