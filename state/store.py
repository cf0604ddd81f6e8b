"""The store of rows: one RocksDB with a column family per kind of row. Only this module imports rocksdict.

A state has one writer and any number of readers. The writer commits `Changes` in one write batch across column
families, so a crash leaves either the whole batch or nothing. A reader opens the same folder without a lock. It sees
exactly what the writer had committed, up to some batch, when the reader was opened or last caught up.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Self

import msgspec
import rocksdict as rocks

from state import between_commits, file_copy, inventory, prefix_index
from state.changes import Changes
from state.errors import DiskFull, StateError, StateMissing, is_disk_full
from state.families import STORAGE, Family, Storage, StoreLimits
from state.reader_folder import ReaderFolder
from state.rocksdb_errors import check_logs, is_log_damage, open_error, state_error
from state.row_blocks import RowBlock, read_blocks
from state.rows import ROW_OVERHEAD_BYTES, Row

MIB = 1 << 20
_KEYS_PER_BATCH = 16
_REFERENCE_BUFFERS_MIB = 256  # the sizes in `STORAGE` were chosen for this total limit on write buffers
_CACHE_ENTRY_BYTES = 0  # 0: unknown, so the cache's table grows with its entries and is not allocated up front
_AFTER_PREFIX = b"\xff" * 32  # sorts after any continuation of a prefix by up to 32 bytes
_FILES_PER_TIERED_COMPACTION = 8
_TRAINING_PER_DICTIONARY = 16  # bytes of rows from which a byte of a dictionary is trained


class MemoryBudget:
    """A block cache and write buffers with a total limit for all stores that share them."""

    def __init__(self, limits: StoreLimits) -> None:
        # A clock cache has few, large shards. A shard of an LRU cache has 4 MiB, enough for only two or three filters
        # of `bands`, so look-ups would read filters from disk again and again (110 µs per bucket at five million
        # documents).
        self.cache = rocks.Cache.new_hyper_clock_cache(limits.cache_mib * MIB, _CACHE_ENTRY_BYTES)
        self.buffers = rocks.WriteBufferManager(limits.write_buffers_mib * MIB, False)


class Store:
    """An open state folder. `state.rows` documents the methods that it shares with other stores."""

    def __init__(
        self,
        path: Path,
        limits: StoreLimits | None = None,
        *,
        writable: bool = True,
        create_if_missing: bool = True,
        memory: MemoryBudget | None = None,
    ) -> None:
        """Open the RocksDB in `path`. A reader never creates it.

        A shared `memory` limits the cache and the write buffers of all its stores together. `limits` then only sets
        the sizes of this store's write buffers.

        Raise StateMissing if the folder has no state, StateLocked if another writer has it open, StateCorrupt if
        files are missing, and StateError if it cannot be created. Reads raise StateCorrupt if files are damaged.
        """
        self.path = path
        self.writable = writable
        self._limits = limits = limits or StoreLimits()
        if not (writable and create_if_missing) and not inventory.has_state(path):
            raise StateMissing(f"no state in {path}", "name the folder with --data-dir, or ingest something first")
        inventory.check(path)
        self._reader_folder = None if writable else ReaderFolder(path)
        # Readers have no write buffers, so they get a larger cache.
        cache_mib = limits.cache_mib + (0 if writable else limits.write_buffers_mib // 2)
        self._memory = memory or MemoryBudget(msgspec.structs.replace(limits, cache_mib=cache_mib))
        self._cache = self._memory.cache
        self._open()

    def _open(self) -> None:
        path, limits, writable = self.path, self._limits, self.writable
        db_options = _options(Storage(), self._cache, limits, writable=writable)
        if writable:
            db_options.create_if_missing(True)
            db_options.create_missing_column_families(True)
            db_options.set_max_background_jobs(limits.background_jobs)
            db_options.set_write_buffer_manager(self._memory.buffers)
            # Limit the log, because readers keep its rows in memory, and opening the state after a crash replays it.
            db_options.set_max_total_wal_size(limits.write_buffers_mib * MIB)
            # Flush all families together. If the table of one family contained a batch that other families have only
            # in a log, the state could not go back to the last batch before damage in that log.
            db_options.set_atomic_flush(True)
            inventory.create_folder(path)
            file_copy.remove_temporary_copies(path)
        db_options.set_max_open_files(-1)  # so that a reader can still read files that the writer has replaced
        db_options.set_keep_log_file_num(2)
        storages = {family.value: storage for family, storage in STORAGE.items()}
        storages |= {"default": Storage(), prefix_index.COLUMN_FAMILY: prefix_index.STORAGE}
        family_options = {
            name: _options(storage, self._cache, limits, writable=writable) for name, storage in storages.items()
        }
        try:
            if writable:
                self._db = self._open_database(path, db_options, family_options)
            else:
                self._db, self._files = between_commits.open_database(
                    path, lambda folder: self._open_database(folder, db_options, family_options)
                )
        except Exception as error:  # rocksdict raises plain Exception for nearly everything
            self._remove_reader_folder()
            raise open_error(path, error) from error
        if writable:
            inventory.remove(path)
        self._families = {family: self._db.get_column_family(family.value) for family in Family}
        self._handles = {family: self._db.get_column_family_handle(family.value) for family in Family}
        self._prefix_index: Any = self._db.get_column_family(prefix_index.COLUMN_FAMILY)
        self._prefix_index_handle: Any = self._db.get_column_family_handle(prefix_index.COLUMN_FAMILY)
        prefix_filtered_families = [
            family for family, storage in STORAGE.items() if writable and not storage.whole_keys
        ]
        try:
            for family in prefix_filtered_families:  # RocksDB accepts this option only for an open column family
                self._families[family].set_options({"block_based_table_factory": "{whole_key_filtering=false;}"})
        except Exception as error:
            self.close()
            raise state_error(path, error) from error

    def _open_database(self, folder: Path, options: Any, family_options: dict[str, Any]) -> Any:
        """Open RocksDB. Raise StateCorrupt if a log is damaged. RocksDB itself would drop all later batches."""
        options.set_wal_recovery_mode(rocks.DBRecoveryMode.tolerate_corrupted_tail_records())
        try:
            check_logs(folder)
            return self._open_once(folder, options, family_options)
        except Exception as error:
            if not is_log_damage(error):
                raise
            check_logs(folder, verify_checksums=True)
        # A log merely ends in zeros, which a power cut can cause. Recover all batches before them.
        options.set_wal_recovery_mode(rocks.DBRecoveryMode.point_in_time())
        return self._open_once(folder, options, family_options)

    def _open_once(self, folder: Path, options: Any, family_options: dict[str, Any]) -> Any:
        reader_folder = self._reader_folder
        if reader_folder is None:
            access = rocks.AccessType.read_write()
            return rocks.Rdict(str(folder), options, column_families=family_options, access_type=access)
        access = rocks.AccessType.read_only(False)  # do not fail if logs exist
        options.set_db_log_dir(str(reader_folder.path))
        reader_folder.remove_links()
        try:
            return rocks.Rdict(str(folder), options, column_families=family_options, access_type=access)
        except OSError:  # the folder is not writable, and rocksdict writes its options there even for a reader
            links = reader_folder.link_files()
            return rocks.Rdict(str(links), options, column_families=family_options, access_type=access)

    def get(self, family: Family, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:
            raise state_error(self.path, error) from error
        return value

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        try:
            values: Any = self._families[family].get(list(keys))
        except Exception as error:
            raise state_error(self.path, error) from error
        return list(values)

    def scan(self, family: Family, prefix: bytes = b"", start: bytes | None = None) -> Iterator[Row]:
        last_key = prefix if start is None else max(start, prefix)
        options = _total_order_options(prefix)  # owns the bound, so it must live as long as the iterator
        rows: Any = self._families[family].items(False, last_key, options)
        for row in rows:
            last_key = row[0]
            if not last_key.startswith(prefix):
                return
            yield row
        self._check_end(family, last_key, prefix)

    def blocks(self, family: Family) -> Iterator[RowBlock]:
        last_key = b""
        for block in read_blocks(self._families[family].items(False, last_key, _total_order_options())):
            last_key = block.last_key
            yield block
        self._check_end(family, last_key)

    def keys(self, family: Family, prefix: bytes, limit: int, start: bytes | None = None) -> list[bytes]:
        first_key = prefix if start is None else max(start, prefix)
        iterator: Any = self._families[family].keys(False, first_key, _total_order_options())
        keys: list[bytes] = []
        while len(keys) < limit:
            # Read keys in batches, and check the prefix of only the last key of each batch, which is faster.
            batch_size = min(_KEYS_PER_BATCH, limit - len(keys))
            batch = list(islice(iterator, batch_size))
            keys += batch
            if len(batch) < batch_size:
                self._check_end(family, keys[-1] if keys else first_key)
            if not batch or not batch[-1].startswith(prefix):
                return keys[: bisect_left(keys, True, key=lambda key: not key.startswith(prefix))]
        return keys

    def scan_reverse(self, family: Family, prefix: bytes, start: bytes) -> Iterator[Row]:
        cursor = self._families[family].iter(_total_order_options())
        cursor.seek_for_prev(start)
        while cursor.valid():
            key = cursor.key()
            if not key.startswith(prefix):
                return
            yield key, cursor.value()
            cursor.prev()
        self._check_cursor(cursor)

    def last_rows_under(self, family: Family, prefixes: Sequence[bytes]) -> list[Row | None]:
        cursor = self._families[family].iter(_total_order_options())
        last_rows: list[Row | None] = []
        for prefix, may_have_rows in zip(prefixes, self.may_have_rows(family, prefixes), strict=True):
            row = None
            if may_have_rows:
                cursor.seek_for_prev(prefix + _AFTER_PREFIX)
                self._check_cursor(cursor)
                if cursor.valid() and cursor.key().startswith(prefix):
                    row = cursor.key(), cursor.value()
            last_rows.append(row)
        return last_rows

    def may_have_rows(self, family: Family, prefixes: Sequence[bytes]) -> list[bool]:
        if family is not Family.CAPTURES or not prefixes:
            return [True] * len(prefixes)
        try:
            entries: Any = self._prefix_index.get([prefix_index.index_key(prefix) for prefix in prefixes])
        except Exception as error:
            raise state_error(self.path, error) from error
        pairs = zip(entries, prefixes, strict=True)
        return [entry is not None or not prefix_index.is_indexable(prefix) for entry, prefix in pairs]

    def rows_under(self, family: Family, prefixes: Sequence[bytes], limit: int | None = None) -> list[list[Row]]:
        return self.read_rows(family, prefixes, limit)[0]

    def read_rows(
        self,
        family: Family,
        prefixes: Sequence[bytes],
        limit: int | None,
        start: bytes | None = None,
        bytes_max: int = sys.maxsize,
    ) -> tuple[list[list[Row]], bytes | None]:
        # All prefixes share one cursor, because opening a cursor takes longer than reading a row.
        cursor = self._prefix_cursor(family, prefixes)
        results: list[list[Row]] = []
        size = 0
        for prefix in prefixes:
            if size >= bytes_max and results:
                break
            rows: list[Row] = []
            cursor.seek(prefix if start is None else max(start, prefix))
            while (key := cursor.key()) is not None and key.startswith(prefix) and len(rows) != limit:
                if size >= bytes_max and rows:
                    return [*results, rows], key
                value = cursor.value()
                rows.append((key, value))
                size += ROW_OVERHEAD_BYTES + len(key) + len(value)
                cursor.next()
            if key is None:
                self._check_cursor(cursor)
            results.append(rows)
            size += ROW_OVERHEAD_BYTES
        return results, None

    def keys_under(self, family: Family, prefixes: Sequence[bytes], limit: int) -> list[list[bytes]]:
        cursor = self._prefix_cursor(family, prefixes)
        results = []
        for prefix in prefixes:
            keys: list[bytes] = []
            cursor.seek(prefix)
            while len(keys) < limit and (key := cursor.key()) is not None and key.startswith(prefix):
                keys.append(key)
                cursor.next()
            self._check_cursor(cursor)
            results.append(keys)
        return results

    def _prefix_cursor(self, family: Family, prefixes: Sequence[bytes]) -> Any:
        """Return a cursor for rows under these prefixes. It skips files that the prefix filters exclude."""
        filter_prefix_bytes = STORAGE[family].prefix_bytes
        if not filter_prefix_bytes or min(map(len, prefixes), default=0) < filter_prefix_bytes:
            return self._families[family].iter(_total_order_options())
        options = rocks.ReadOptions()
        options.set_prefix_same_as_start(True)
        return self._families[family].iter(options)

    def write(self, changes: Changes, *, sync: bool = False) -> None:
        batch = rocks.WriteBatch(raw_mode=True)
        for family, keys in changes.deletes.items():
            for key in keys:
                batch.delete(key, self._handles[family])
            if family is Family.CAPTURES:
                for prefix in {prefix_index.prefix_of(key) for key in keys}:
                    if all(key in keys for key, _ in self.scan(family, prefix)):  # no other rows remain
                        batch.delete(prefix_index.index_key(prefix), self._prefix_index_handle)
        for family, rows in changes.puts.items():
            for key in sorted(rows):  # inserting next to the previous row of the memtable is fastest
                batch.put(key, rows[key], self._handles[family])
            if family is Family.CAPTURES:
                prefixes = {prefix_index.prefix_of(key) for key in rows}
                for key in sorted(map(prefix_index.index_key, prefixes)):
                    batch.put(key, b"", self._prefix_index_handle)
        options = rocks.WriteOptions()
        options.sync = sync
        options.memtable_insert_hint_per_batch = True
        try:
            self._db.write(batch, options)
        except Exception as error:
            raise state_error(self.path, error) from error

    def _check_end(self, family: Family, key: bytes, prefix: bytes = b"") -> None:
        """Raise StateCorrupt if an iteration over the keys under `prefix` ended after `key` because of damage."""
        options = _total_order_options(prefix)  # owns the bound, so it must live as long as the cursor
        cursor = self._families[family].iter(options)
        cursor.seek(key)
        while cursor.valid() and cursor.key() <= key:
            cursor.next()
        self._check_cursor(cursor)

    def _check_cursor(self, cursor: Any) -> None:
        """Raise StateCorrupt if a cursor has stopped because of damage, not because there are no more rows."""
        if not cursor.valid():
            try:
                cursor.status()
            except Exception as error:
                raise state_error(self.path, error) from error

    def catch_up(self) -> None:
        if not self.writable and inventory.current_files(self.path) != self._files:
            self._close_database()
            self._open()

    def flush(self) -> None:
        for column_family in self._column_families():
            column_family.flush()

    def compact(self, family: Family) -> None:
        """Merge all files of a family into the last level, as RocksDB does over time."""
        options = rocks.CompactOptions()
        options.set_bottommost_level_compaction(rocks.BottommostLevelCompaction.force())
        self._families[family].compact_range(None, None, options)

    def checkpoint(self, path: Path) -> None:
        """Copy everything committed so far, even during writes. Use hard links if the file system supports them."""
        try:
            if self.writable:
                rocks.Checkpoint(self._db).create_checkpoint(str(path))
            else:
                between_commits.copy(self.path, path, self._copy_once)
        except StateError:
            raise
        except Exception as error:
            if is_disk_full(error):
                raise DiskFull(path.parent) from error
            hint = "name a folder that does not exist yet"
            raise StateError(f"cannot make a backup in {path}: {error}", hint) from error

    def _copy_once(self, path: Path) -> None:
        file_copy.copy(self.path, path)
        with Store(path, self._limits, writable=False) as copy:  # fails if the writer has deleted a table
            tables = {table["name"].lstrip("/") for table in copy._db.live_files()}
        file_copy.finish(path, tables)

    def bytes_on_disk(self, family: Family) -> int:
        """Return the size of a family's files. The size of `captures` includes the prefix index."""
        column_families = [self._families[family], *([self._prefix_index] if family is Family.CAPTURES else [])]
        return _sum_property(column_families, "total-sst-files-size")

    def bytes_in_memory(self) -> dict[str, int]:
        """Return the sizes of RocksDB's block cache, write buffers and table readers."""
        return {
            "cache": int(self._cache.get_usage()),
            "buffers": _sum_property(self._column_families(), "cur-size-all-mem-tables"),
            "tables": _sum_property(self._column_families(), "estimate-table-readers-mem"),
        }

    def estimated_keys(self, family: Family) -> int:
        """Return RocksDB's estimate of the number of keys in a family."""
        return _sum_property([self._families[family]], "estimate-num-keys")

    def version(self) -> str:
        """Return a string that changes with every write."""
        identity = (self.path / "IDENTITY").read_text()
        return f"{identity}:{self._db.latest_sequence_number()}"

    def close(self) -> None:
        """Stop background work, release the folder and write its inventory."""
        try:
            # Read the manifest's name while the lock still keeps other writers out.
            manifest = inventory.current_manifest(self.path) if self.writable else ""
            if self.writable:
                self._sync_log()
            self._close_database()
            if manifest:
                inventory.write(self.path, manifest)
        except Exception as error:  # such as a full disk
            raise state_error(self.path, error) from error
        finally:
            self._remove_reader_folder()

    def _sync_log(self) -> None:
        """Write the log to disk. A power cut must not make it shorter than the inventory says."""
        self._db.flush_wal(True)

    def _column_families(self) -> list[Any]:
        return [*self._families.values(), self._prefix_index]

    def _close_database(self) -> None:
        for column_family in self._column_families():
            column_family.close()
        # Drop the handles, which keep the database and its lock alive.
        self._families, self._handles, self._prefix_index, self._prefix_index_handle = {}, {}, None, None
        self._db.close()

    def _remove_reader_folder(self) -> None:
        if self._reader_folder is not None:
            self._reader_folder.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        try:
            self.close()
        except StateError:
            if error is None:  # do not hide `error`: on a full disk, closing fails too
                raise


def _sum_property(column_families: list[Any], name: str) -> int:
    return sum(int(family.property_int_value(f"rocksdb.{name}") or 0) for family in column_families)


def _total_order_options(prefix: bytes = b"") -> Any:
    """Return read options that visit all rows under a prefix. By default, RocksDB may skip rows with other prefixes.

    At the end of the prefix, RocksDB must not search for the next row: it may have to skip millions of deleted rows.
    """
    options = rocks.ReadOptions()
    options.set_total_order_seek(True)
    if incrementable := prefix.rstrip(b"\xff"):
        options.set_iterate_upper_bound(incrementable[:-1] + bytes([incrementable[-1] + 1]))
    return options


def _options(storage: Storage, cache: Any, limits: StoreLimits, *, writable: bool) -> Any:
    """Return the options of a column family. RocksDB does not restore them, so every opening must pass them."""
    options = rocks.Options(raw_mode=True)
    table = rocks.BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_block_size(storage.block_kib * 1024)
    table.set_block_restart_interval(32)
    table.set_format_version(5)
    # Keep indexes and filters in the cache, so that its limit applies to them.
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # Split indexes into parts of 4 KiB, so that a seek to a distant row reads one part instead of 256 KiB.
    table.set_index_type(rocks.BlockBasedIndexType.two_level_index_search())
    table.set_pin_top_level_index_and_filter(True)
    # RocksDB allocates each write buffer's filter as if the buffer were full, so low limits need small buffers.
    scale = min(1.0, limits.write_buffers_mib / _REFERENCE_BUFFERS_MIB)
    options.set_write_buffer_size(int(storage.write_buffer_mib * scale * MIB))
    options.set_max_write_buffer_number(3)
    if storage.bloom_bits:
        table.set_bloom_filter(storage.bloom_bits, False)
        if storage.whole_keys and writable:  # for a reader, allocating these filters takes longer than a query
            options.set_memtable_prefix_bloom_ratio(0.2)
            options.set_memtable_whole_key_filtering(True)
    if storage.prefix_bytes:
        options.set_prefix_extractor(rocks.SliceTransform.create_fixed_prefix(storage.prefix_bytes))
    options.set_block_based_table_factory(table)
    if storage.tiered:
        options.set_compaction_style(rocks.DBCompactionStyle.universal())
        options.set_level_zero_file_num_compaction_trigger(_FILES_PER_TIERED_COMPACTION)
    options.set_compression_type(getattr(rocks.DBCompressionType, storage.compression.split("+")[0])())
    if "zstd" in storage.compression:
        options.set_bottommost_compression_type(rocks.DBCompressionType.zstd())
        options.set_bottommost_compression_options(-14, storage.zstd_level, 0, storage.dictionary_kib << 10, True)
        options.set_bottommost_zstd_max_train_bytes(_TRAINING_PER_DICTIONARY * storage.dictionary_kib << 10, True)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_bytes_for_level_base(256 * MIB)
    options.set_target_file_size_base(16 * MIB)
    options.set_max_background_jobs(limits.background_jobs)
    return options
