"""The contract of `state.rows`: every store answers like a sorted dict.

`STORES` lists a factory per implementation. Each takes a folder and the rows of one family, and yields a store
with these rows. To test another store, write its factory and add it to the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from state.changes import Changes
from state.families import Family, StoreLimits
from state.rows import ROW_OVERHEAD_BYTES, LocalReader, Row, RowReader, RowStore
from state.store import Store
from tests.memory import MemoryStore
from tests.streams.kafka.rows import sharding

FAMILY = Family.META
SMALL = StoreLimits(cache_mib=8, write_buffers_mib=8, background_jobs=1)
Rows = dict[bytes, bytes]
Factory = Callable[[Path, Rows], AbstractContextManager[RowReader]]


@contextmanager
def rocksdb_store(folder: Path, rows: Rows) -> Iterator[Store]:
    with Store(folder / "state", SMALL) as store:
        store.write(changes_of(rows))
        yield store


@contextmanager
def memory_store(_: Path, rows: Rows) -> Iterator[MemoryStore]:
    store = MemoryStore()
    store.write(changes_of(rows))
    yield store


@contextmanager
def sharded_store(_: Path, rows: Rows) -> Iterator[RowReader]:
    yield sharding.sharded_store(rows, FAMILY)


@contextmanager
def remote_store(_: Path, rows: Rows) -> Iterator[RowReader]:
    yield sharding.remote_store(rows, FAMILY)


@contextmanager
def remote_store_with_small_answers(_: Path, rows: Rows) -> Iterator[RowReader]:
    yield sharding.remote_store(rows, FAMILY, bytes_max=1)


STORES: list[Factory] = [
    rocksdb_store, memory_store, sharded_store, remote_store, remote_store_with_small_answers,
]  # fmt: skip
HISTORY_READERS: list[Factory] = [rocksdb_store, memory_store]
WRITERS: list[Factory] = [rocksdb_store, memory_store]


def changes_of(rows: Rows) -> Changes:
    changes = Changes()
    changes.puts_of(FAMILY).update(rows)
    return changes


def under(rows: Rows, prefix: bytes) -> list[Row]:
    return sorted(row for row in rows.items() if row[0].startswith(prefix))


keys = st.binary(max_size=3).map(lambda key: bytes(byte % 4 * 85 for byte in key))
"""Short keys of four byte values, including 0 and 255, so that keys share prefixes."""
some_rows = st.dictionaries(keys, st.binary(max_size=2), max_size=12)
some_keys = st.lists(keys, max_size=4)
limits = st.integers(0, 4)


@pytest.mark.parametrize("factory", STORES)
@hypothesis_settings(max_examples=25)
@given(rows=some_rows, prefixes=some_keys, start=st.none() | keys, limit=limits)
def test_reads_match_a_sorted_dict(
    factory: Factory, rows: Rows, prefixes: list[bytes], start: bytes | None, limit: int
) -> None:
    with TemporaryDirectory() as folder, factory(Path(folder), rows) as store:
        store.catch_up()
        assert store.get_many(FAMILY, prefixes) == [rows.get(key) for key in prefixes]
        for prefix in prefixes:
            assert store.get(FAMILY, prefix) == rows.get(prefix)
            assert list(store.scan(FAMILY, prefix)) == under(rows, prefix)
            from_start = [row for row in under(rows, prefix) if start is None or row[0] >= start]
            assert list(store.scan(FAMILY, prefix, start)) == from_start
            assert store.keys(FAMILY, prefix, limit, start) == [key for key, _ in from_start[:limit]]
        for at_most in (None, limit):
            expected = [under(rows, prefix)[:at_most] for prefix in prefixes]
            assert store.rows_under(FAMILY, prefixes, at_most) == expected
        keys_under = [[key for key, _ in under(rows, prefix)[:limit]] for prefix in prefixes]
        assert store.keys_under(FAMILY, prefixes, limit) == keys_under


@pytest.mark.parametrize("factory", STORES)
def test_a_scan_can_be_abandoned(factory: Factory, tmp_path: Path) -> None:
    rows = {b"%04d" % n: b"" for n in range(300)}
    with factory(tmp_path, rows) as store:
        assert list(islice(store.scan(FAMILY), 2)) == [(b"0000", b""), (b"0001", b"")]
        assert len(list(store.scan(FAMILY))) == 300


@pytest.mark.parametrize("factory", STORES)
def test_an_empty_store_has_no_rows(factory: Factory, tmp_path: Path) -> None:
    with factory(tmp_path, {}) as store:
        for family in Family:
            assert list(store.scan(family)) == []
            assert store.get(family, b"key") is None


@pytest.mark.parametrize("factory", STORES)
def test_a_store_has_a_path(factory: Factory, tmp_path: Path) -> None:
    with factory(tmp_path, {}) as store:
        assert store.path.name


@pytest.mark.parametrize("factory", HISTORY_READERS)
@hypothesis_settings(max_examples=25)
@given(rows=some_rows, prefixes=some_keys, start=keys)
def test_backward_reads_match_a_sorted_dict(
    factory: Factory, rows: Rows, prefixes: list[bytes], start: bytes
) -> None:
    with TemporaryDirectory() as folder, factory(Path(folder), rows) as opened:
        store = cast(LocalReader, opened)
        for prefix in prefixes:
            first = prefix + start
            expected = [row for row in reversed(under(rows, prefix)) if row[0] <= first]
            assert list(store.scan_reverse(FAMILY, prefix, first)) == expected
        last = [max(under(rows, prefix), default=None) for prefix in prefixes]
        assert store.last_rows_under(FAMILY, prefixes) == last
        assert [block.row(row) for block in store.blocks(FAMILY) for row in range(len(block))] == under(rows, b"")


@pytest.mark.parametrize("factory", HISTORY_READERS)
@hypothesis_settings(max_examples=25)
@given(rows=some_rows, prefixes=some_keys, limit=st.none() | limits, row_count=st.integers(0, 5))
def test_a_read_of_bounded_size_continues_where_it_stopped(
    factory: Factory, rows: Rows, prefixes: list[bytes], limit: int | None, row_count: int
) -> None:
    bytes_max = row_count * ROW_OVERHEAD_BYTES
    with TemporaryDirectory() as folder, factory(Path(folder), rows) as opened:
        store = cast(LocalReader, opened)
        results, next_key = store.read_rows(FAMILY, prefixes, limit, None, bytes_max)
        assert bool(results) == bool(prefixes)
        assert sum(map(len, results)) <= max(1, row_count)
        expected = [under(rows, prefix)[:limit] for prefix in prefixes[: len(results)]]
        if next_key is not None:
            remaining = None if limit is None else limit - len(results[-1])
            (rest,), _ = store.read_rows(FAMILY, prefixes[len(results) - 1 :][:1], remaining, next_key, 1 << 20)
            assert results[-1]
            assert rest
            results[-1] += rest
        assert results == expected


@pytest.mark.parametrize("factory", WRITERS)
@hypothesis_settings(max_examples=25)
@given(rows=some_rows, puts=some_rows, deletes=st.sets(keys))
def test_a_write_puts_and_deletes(factory: Factory, rows: Rows, puts: Rows, deletes: set[bytes]) -> None:
    changes = changes_of(puts)
    changes.delete_all(FAMILY, deletes)
    with TemporaryDirectory() as folder, factory(Path(folder), rows) as opened:
        store = cast(RowStore, opened)
        store.write(changes, sync=True)
        expected = {key: value for key, value in {**rows, **puts}.items() if key not in deletes}
        assert list(store.scan(FAMILY)) == sorted(expected.items())
