"""The store: one RocksDB with a column family a role. The only module that imports rocksdict.

One writer, any number of readers. A writer commits `Changes` in one write batch across families: after a crash all
of a batch is there or none of it. A reader opens the same folder as a secondary instance, takes no lock, and sees
what the writer had committed when it opened or last caught up.
"""

from __future__ import annotations

import shutil
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import rocksdict as rocks

from state import inventory
from state.changes import Changes
from state.errors import StateCorrupt, StateError, StateLocked, StateMissing
from state.families import STORAGE, Compression, Family, Storage
from state.malloc_tuning import tune_malloc
from state.prefix_index import LISTED, STORED, Prefixes, list_of, prefix_of
from state.store_limits import StoreLimits

MIB = 1 << 20
_KEYS_A_STEP = 16
_BUFFERS_MIB = 256  # in all, for which the buffers of `STORAGE` are made
_ENTRY_BYTES = 4096  # of the cache, on average
_LAST = b"\xff" * 32  # above whatever follows a prefix, up to two ids
_TIERS = 8  # files of like size that wait to be merged
_LISTED_A_BATCH = 100_000


class Memory:
    """A cache and write buffers that any number of writers share: it is bounded for all of them together."""

    def __init__(self, limits: StoreLimits) -> None:
        # A clock, as its shards are few and large: of the other kind's, of 4 MiB, each holds two or three of the
        # filters of `bands`, and look-ups read them from disk again and again (110 µs a bucket at five million
        # documents).
        self.cache = rocks.Cache.new_hyper_clock_cache(limits.cache_mib * MIB, _ENTRY_BYTES)
        self.buffers = rocks.WriteBufferManager(limits.write_buffers_mib * MIB, False)


class Store:
    """An open state folder."""

    def __init__(
        self,
        path: Path,
        limits: StoreLimits | None = None,
        *,
        writable: bool = True,
        make: bool = True,
        memory: Memory | None = None,
    ) -> None:
        """Open the RocksDB in `path`; a writer makes it when it is not there, unless told not to.

        With `memory` it shares that of others, and `limits` say what its own part of it is.

        Raises StateMissing when there is nothing, StateLocked when another writer has it open, StateError when the
        folder cannot be made. All that reads raises StateCorrupt where the files are damaged.
        """
        self.path = path
        self.writable = writable
        self._limits = limits = limits or StoreLimits()
        if not (writable and make) and not _is_state(path):
            raise StateMissing(f"no state in {path}", "name the folder with --data-dir, or ingest something first")
        inventory.check(path)
        self._side_folder = None if writable else Path(tempfile.mkdtemp(prefix="lostfound-reader-"))
        more_mib = 0 if writable else limits.write_buffers_mib // 2
        # Shared by all families, so that memory is bounded as a whole and not a family at a time.
        self._memory = memory or Memory(msgspec.structs.replace(limits, cache_mib=limits.cache_mib + more_mib))
        self._cache = self._memory.cache
        tune_malloc()
        self._open()

    def _open(self) -> None:
        path, limits, writable = self.path, self._limits, self.writable
        base = _options(Storage(), self._cache, limits)
        if writable:
            base.create_if_missing(True)
            base.create_missing_column_families(True)
            base.set_max_background_jobs(limits.background_jobs)
            base.set_write_buffer_manager(self._memory.buffers)
            # What is not in files yet a reader beside the writer holds in memory, and a start after a crash reads.
            base.set_max_total_wal_size(limits.write_buffers_mib * MIB)
            _make_folder(path)
        base.set_max_open_files(-1)  # a reader keeps files that the writer has since replaced
        base.set_keep_log_file_num(2)
        access = rocks.AccessType.read_write() if writable else rocks.AccessType.secondary(str(self._side_folder))
        try:
            lists = [family for family in LISTED if writable or list_of(family) in rocks.Rdict.list_cf(str(path))]
            kept = [*_all_families(), *((list_of(family), STORED) for family in lists)]
            families = {name: _options(storage, self._cache, limits) for name, storage in kept}
            self._db = rocks.Rdict(str(path), base, column_families=families, access_type=access)
        except Exception as error:  # rocksdict raises plain Exception for everything
            self._remove_side_folder()
            raise _open_error(path, error) from error
        if writable:
            inventory.drop(path)
        self._families = {family: self._db.get_column_family(family.value) for family in Family}
        self._handles = {family: self._db.get_column_family_handle(family.value) for family in Family}
        self._lists = {family: Prefixes(self._db, family) for family in lists}
        try:
            self._set_what_filters_know()
            self._complete_lists()
        except BaseException as error:  # a Ctrl-C too
            self.close()
            if isinstance(error, StateError) or not isinstance(error, Exception):
                raise
            raise _failure(path, error) from error

    def _set_what_filters_know(self) -> None:
        """The option that only an open family takes."""
        for family, storage in STORAGE.items():
            if self.writable and not storage.whole_keys:
                self._families[family].set_options({"block_based_table_factory": "{whole_key_filtering=false;}"})

    def _complete_lists(self) -> None:
        """List what a state of an earlier version holds, or the rest of it where that was interrupted."""
        for family, listed in self._lists.items() if self.writable else ():
            while (start := listed.begin()) is not None:
                batch = rocks.WriteBatch(raw_mode=True)
                listed.go_on(batch, self.keys(family, b"", _LISTED_A_BATCH, start))
                self._db.write(batch)

    def get(self, family: Family, key: bytes) -> bytes | None:
        """The value of one key."""
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:
            raise _failure(self.path, error) from error
        return value

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys, in their order; sorted keys are read fastest."""
        if not keys:
            return []
        try:
            values: Any = self._families[family].get(list(keys))
        except Exception as error:
            raise _failure(self.path, error) from error
        return list(values)

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with `prefix`, ascending, from `start` on."""
        at = prefix if start is None else max(start, prefix)
        rows: Any = self._families[family].items(False, at, _everything())
        for row in rows:
            at = row[0]
            if not at.startswith(prefix):
                return
            yield row
        self._ended(family, at)

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        """At most `limit` keys that begin with `prefix`, ascending, from `start` on."""
        at = prefix if start is None else max(start, prefix)
        keys: Any = self._families[family].keys(False, at, _everything())
        found: list[bytes] = []
        while len(found) < limit:
            # A few at a time: comparing the last of them is quicker than comparing each.
            asked = min(_KEYS_A_STEP, limit - len(found))
            part = list(islice(keys, asked))
            found += part
            if len(part) < asked:
                self._ended(family, found[-1] if found else at)
            if not part or not part[-1].startswith(prefix):
                del found[bisect_left(found, True, key=lambda key: not key.startswith(prefix)) :]
                break
        return found

    def scan_reverse(self, family: Family, prefix: bytes, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose key begins with `prefix`, descending, from `start` down."""
        cursor = self._families[family].iter(_everything())
        cursor.seek_for_prev(start)
        while cursor.valid():
            key = cursor.key()
            if not key.startswith(prefix):
                return
            yield key, cursor.value()
            cursor.prev()
        self._sound(cursor)

    def last_under(self, family: Family, prefixes: Sequence[bytes]) -> list[tuple[bytes, bytes] | None]:
        """For each prefix the row with the greatest key under it."""
        cursor = self._families[family].iter(_everything())
        found: list[tuple[bytes, bytes] | None] = []
        for prefix, listed in zip(prefixes, self.listed(family, prefixes), strict=True):
            if not listed:
                found.append(None)
                continue
            cursor.seek_for_prev(prefix + _LAST)
            self._sound(cursor)
            held = cursor.valid() and cursor.key().startswith(prefix)
            found.append((cursor.key(), cursor.value()) if held else None)
        return found

    def listed(self, family: Family, prefixes: Sequence[bytes]) -> list[bool]:
        """Whether there may be rows under each prefix, by the list of this family's prefixes where one is kept."""
        held = self._lists.get(family)
        if held is None or not prefixes:
            return [True] * len(prefixes)
        try:
            return held.may_have(prefixes) if held.whole() else [True] * len(prefixes)
        except Exception as error:
            raise _failure(self.path, error) from error

    def scan_prefixes(
        self, family: Family, prefixes: Sequence[bytes], limit: int | None = None
    ) -> list[list[tuple[bytes, bytes]]]:
        """For each prefix the rows under it, at most `limit`; by one cursor: opening one takes longer than a row."""
        cursor = self._cursor_under(family, prefixes)
        found = []
        for prefix in prefixes:
            rows: list[tuple[bytes, bytes]] = []
            cursor.seek(prefix)
            while len(rows) != limit and (key := cursor.key()) is not None and key.startswith(prefix):
                rows.append((key, cursor.value()))
                cursor.next()
            self._sound(cursor)
            found.append(rows)
        return found

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """For each prefix at most `limit` keys under it, ascending; by one cursor, as in `firsts`."""
        cursor = self._cursor_under(family, prefixes)
        found = []
        for prefix in prefixes:
            keys: list[bytes] = []
            cursor.seek(prefix)
            while len(keys) < limit and (key := cursor.key()) is not None and key.startswith(prefix):
                keys.append(key)
                cursor.next()
            self._sound(cursor)
            found.append(keys)
        return found

    def _cursor_under(self, family: Family, prefixes: Sequence[bytes]) -> Any:
        """A cursor for rows under these prefixes: where filters know them, it passes over files without."""
        known = STORAGE[family].prefix_bytes
        if not known or min(map(len, prefixes), default=0) < known:
            return self._families[family].iter(_everything())
        options = rocks.ReadOptions()
        options.set_prefix_same_as_start(True)
        return self._families[family].iter(options)

    def write(self, changes: Changes, *, sync: bool = False) -> None:
        """Commit all changes at once, or none of them."""
        batch = rocks.WriteBatch(raw_mode=True)
        for family, keys in changes.deletes.items():
            handle = self._handles[family]
            for key in keys:
                batch.delete(key, handle)
            if family in self._lists:
                self._lists[family].remove(batch, self._emptied(family, keys))
        for family, rows in changes.puts.items():
            handle = self._handles[family]
            for key in sorted(rows):  # in order, the memtable inserts beside its last place
                batch.put(key, rows[key], handle)
            if family in self._lists:
                self._lists[family].add(batch, rows)
        options = rocks.WriteOptions()
        options.sync = sync
        options.memtable_insert_hint_per_batch = True
        try:
            self._db.write(batch, options)
        except Exception as error:
            raise _failure(self.path, error) from error

    def _emptied(self, family: Family, keys: set[bytes]) -> list[bytes]:
        """Prefixes under which there are no rows but these."""
        return [
            prefix for prefix in set(map(prefix_of, keys)) if all(key in keys for key, _ in self.scan(family, prefix))
        ]

    def _ended(self, family: Family, key: bytes) -> None:
        """See that a walk which came to its end behind `key` did so because nothing is left."""
        cursor = self._families[family].iter(_everything())
        cursor.seek(key)
        while cursor.valid() and cursor.key() <= key:
            cursor.next()
        self._sound(cursor)

    def _sound(self, cursor: Any) -> None:
        """See that a cursor which points at no row is at an end; at damage it stops in the same way."""
        if not cursor.valid():
            try:
                cursor.status()
            except Exception as error:
                raise _failure(self.path, error) from error

    def catch_up(self) -> None:
        """Let a reader see what the writer has committed since."""
        if self.writable:
            return
        before = self._db.latest_sequence_number()
        self._db.try_catch_up_with_primary()
        if self._db.latest_sequence_number() != before:
            # What it replayed from a log that the writer has flushed since would hide newer values for ever
            # (facebook/rocksdb#15051): only opening anew is sure to see what is committed.
            self._let_go()
            self._open()

    def flush(self) -> None:
        """Write all buffers to files."""
        for family in self._opened():
            family.flush()

    def compact(self, family: Family | None = None) -> None:
        """Merge the files of one family or all; for measuring, RocksDB does its own."""
        for each in [self._families[family]] if family else self._opened():
            each.compact_range(None, None)

    def checkpoint(self, path: Path) -> None:
        """A consistent copy made of hard links where the file system has them; works while writing."""
        try:
            rocks.Checkpoint(self._db).create_checkpoint(str(path))
        except Exception as error:
            raise StateError(f"no backup made in {path}: {error}", "name a folder that does not exist yet") from error

    def bytes_on_disk(self, family: Family) -> int:
        """Bytes of a family's files, a list of its prefixes among them; what is still in memory is not in it."""
        held = [self._families[family], *([self._lists[family].family] if family in self._lists else [])]
        return sum(int(each.property_int_value("rocksdb.total-sst-files-size") or 0) for each in held)

    def bytes_in_memory(self) -> dict[str, int]:
        """Bytes that RocksDB holds: cache, write buffers, and readers' tables."""
        held = {"cache": int(self._cache.get_usage())}
        for name, what in (("buffers", "cur-size-all-mem-tables"), ("tables", "estimate-table-readers-mem")):
            held[name] = sum(int(f.property_int_value(f"rocksdb.{what}") or 0) for f in self._opened())
        return held

    def estimated_keys(self, family: Family) -> int:
        """RocksDB's own estimate of the keys of a family."""
        return int(self._families[family].property_int_value("rocksdb.estimate-num-keys") or 0)

    def close(self) -> None:
        """Stop background work and let go of the folder."""
        try:
            manifest = inventory.manifest_of(self.path) if self.writable else ""  # while nobody else can be at work
            self._let_go()
            if manifest:
                inventory.take(self.path, manifest)
        except Exception as error:  # such as a full disk
            raise _failure(self.path, error) from error
        finally:
            self._remove_side_folder()

    def _opened(self) -> list[Any]:
        return [*self._families.values(), *(each.family for each in self._lists.values())]

    def _let_go(self) -> None:
        for family in self._opened():
            family.close()
        # Handles keep the database, and its lock, alive.
        for listed in self._lists.values():
            listed.close()
        self._families, self._handles, self._lists = {}, {}, {}
        self._db.close()

    def _remove_side_folder(self) -> None:
        if self._side_folder is not None:
            shutil.rmtree(self._side_folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StateError:
            if error is None:  # else that says more: what a full disk has stopped cannot be closed well
                raise


def _everything() -> Any:
    """How to read rows in order whatever prefixes the filters know: else those of other prefixes may be left out."""
    options = rocks.ReadOptions()
    options.set_total_order_seek(True)
    return options


def _all_families() -> list[tuple[str, Storage]]:
    return [("default", Storage()), *((family.value, STORAGE[family]) for family in Family)]


def _options(storage: Storage, cache: Any, limits: StoreLimits) -> Any:
    """Options of one family. On reopening they must be given again, or the block cache silently falls to 8 MiB."""
    options = rocks.Options(raw_mode=True)
    table = rocks.BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_block_size(storage.block_kib * 1024)
    table.set_block_restart_interval(32)
    table.set_format_version(5)
    # Index and filters live in the cache, so that they count against its bound.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # Indexes in parts of 4 KiB: a seek far from the last one reads one, not a quarter of a megabyte.
    table.set_index_type(rocks.BlockBasedIndexType.two_level_index_search())
    table.set_pin_top_level_index_and_filter(True)
    # Filters of buffers are as large as these may become, from the start: they must fit where little is to be used.
    share = min(1.0, limits.write_buffers_mib / _BUFFERS_MIB)
    options.set_write_buffer_size(int(storage.write_buffer_mib * share * MIB))
    options.set_max_write_buffer_number(3)
    if storage.bloom_bits:
        table.set_bloom_filter(storage.bloom_bits, False)
        if storage.whole_keys:
            options.set_memtable_prefix_bloom_ratio(0.2)
            options.set_memtable_whole_key_filtering(True)
    if storage.prefix_bytes:
        options.set_prefix_extractor(rocks.SliceTransform.create_fixed_prefix(storage.prefix_bytes))
    options.set_block_based_table_factory(table)
    if storage.tiered:
        options.set_compaction_style(rocks.DBCompactionStyle.universal())
        options.set_level_zero_file_num_compaction_trigger(_TIERS)
    if storage.compression is Compression.NONE:
        options.set_compression_type(rocks.DBCompressionType.none())
    else:
        options.set_compression_type(rocks.DBCompressionType.lz4())
    if storage.compression is Compression.ZSTD_BELOW:
        options.set_bottommost_compression_type(rocks.DBCompressionType.zstd())
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_bytes_for_level_base(256 * MIB)
    options.set_target_file_size_base(16 * MIB)
    options.set_max_background_jobs(limits.background_jobs)
    return options


def _is_state(path: Path) -> bool:
    try:
        return (path / "CURRENT").exists()
    except OSError as error:
        raise StateError(
            f"no state can be read in {path}: {error.strerror}", "name a folder with --data-dir"
        ) from error


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StateError(
            f"no state can be made in {path}: {error.strerror}",
            "name a folder with --data-dir that can be written to",
        ) from error


def _failure(path: Path, error: Exception) -> StateError:
    """The error that RocksDB's is: rocksdict raises plain Exception for everything."""
    said = str(error)
    if "corrupt" in said.lower() or "checksum" in said.lower() or "No such file" in said:
        return StateCorrupt(
            f"the state in {path} is damaged: {said}", "restore a backup, or ingest into a new folder"
        )
    return StateError(
        f"the state in {path}: {said}", "see that its disk has room and works; what was committed stays"
    )


def _open_error(path: Path, error: Exception) -> StateError:
    said = str(error)
    if "lock file" in said.lower() or "lock hold" in said.lower():
        return StateLocked(f"the state in {path} is open for writing elsewhere", "wait for the other command to end")
    if "Column families not opened" in said or "Column family not found" in said:
        return StateError(
            f"the folder {path} holds other column families than this version's", "name another --data-dir"
        )
    if "Read-only file system" in said:
        return StateError(
            f"the state in {path} is on a read-only file system: opening one writes its options beside it",
            "mount it for writing, or name a copy with --data-dir",
        )
    return StateError(
        f"the state in {path} does not open: {said}", "try `lostfound state check`, or restore a backup"
    )
