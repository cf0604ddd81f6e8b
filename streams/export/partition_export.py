"""Write the files of one partition of a data set. The embedded engine has a single partition, with the number 0.

    captures, links, hosts    from the rows of the partition
    documents                 from the rows of the partition and the captures of all partitions
    clusters                  from the exported documents and the parents of documents of all partitions

A document and its captures may be in different partitions, because captures are in the partition of their URL.

Each pass over the rows computes a checksum per sweep. If it equals the checksum of the previous export, the files of
the sweep are kept. Otherwise, as after `forget`, another pass writes them again.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from state.codecs import link_list
from state.families import Family
from state.row_blocks import RowBlock
from state.rows import LocalReader
from state.view import View
from streams.export import capture_columns, document_columns, hashes, link_columns
from streams.export.data_set import Part, TableName, Workspace
from streams.export.duckdb_connection import quote
from streams.export.part_files import PartFiles
from streams.export.schema import CLUSTERS, HOSTS
from streams.export.sorted_join import KeyedBlock, Match, join, unsigned_order

EXPORTED_FAMILIES = (
    Family.CAPTURES,
    Family.DOCUMENTS,
    Family.LINK_LISTS,
    Family.LINK_CHUNKS,
    Family.PARENTS,
)
_SWEEPS_PER_PASS = 64  # each has an open file
_POINTER_STEPS_MAX = 64
_LINKS_PER_BATCH = 1 << 18
_RESULT_ROWS_PER_BATCH = 1 << 16
_LIST_CHUNKS = pa.schema([("source", pa.int64()), ("link_list", pa.int64()), ("chunk", pa.int64())])
_CHECKSUM_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_CHECKSUM_MASK = (1 << 63) - 1  # keeps sums in the range of a signed 64-bit integer

PartKey = tuple[str, int | None, int]


class Piece(NamedTuple):
    """Rows of one or more sweeps. Only the rows of the sweeps to write are decoded."""

    sweeps: NDArray[np.int32]
    checksums: NDArray[np.int64]
    decode: Callable[
        [NDArray[np.int64]], Iterable[pa.RecordBatch]
    ]  # returns the columns of rows, given their indexes


class PartitionExport:
    """Writes new files for the parts that differ from `previous`, and collects all parts in `parts`."""

    def __init__(
        self,
        workspace: Workspace,
        rows: LocalReader,
        *,
        sweeps: Collection[int],
        previous: Mapping[PartKey, Part],
        partition: int = 0,
        on_rows: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Prepare to write these sweeps. `on_rows` is called with the number of rows read, and may raise to stop."""
        self.parts: list[Part] = []
        self._workspace, self._rows, self._partition = workspace, rows, partition
        self._sweeps, self._previous, self._on_rows = sorted(sweeps), previous, on_rows

    def write_captures(self) -> None:
        self._write_sweep_table("captures", self._capture_pieces)

    def write_links(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Write the links of the captures, which must have been written before."""
        files = capture_files(self._workspace, self.parts)
        if files:
            self._create_lists(connection, files)
            self._write_sweep_table("links", lambda: self._link_pieces(connection))

    def write_documents(self, connection: duckdb.DuckDBPyConnection, captures: Collection[Path]) -> None:
        """Write the documents of captures. `captures` are the files of captures of all partitions."""
        if captures:
            connection.execute(
                "CREATE OR REPLACE TABLE first_sweeps AS SELECT document, min(sweep) AS sweep"
                f" FROM {_read_files(captures)} WHERE document IS NOT NULL GROUP BY document"
            )
            self._write_sweep_table("documents", lambda: self._document_pieces(connection))

    def write_parents(self) -> Path:
        """Write the parents of documents in the union-find to a temporary file, for `write_clusters`."""
        path = parents_file(self._workspace, self._partition)
        path.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetWriter(path, CLUSTERS, compression="snappy") as writer:
            for block in self._blocks(Family.PARENTS):
                documents = _first_8_bytes(block.keys, block.key_offsets)
                parents = _first_8_bytes(block.values, block.value_offsets)
                columns = [pa.array(ids.view(np.int64)) for ids in (documents, parents)]
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=CLUSTERS))
        return path

    def write_clusters(self, connection: duckdb.DuckDBPyConnection, parents: Collection[Path]) -> None:
        """Write the cluster, identified by its root, of each document that `write_documents` has written.

        `parents` are the files that `write_parents` has written for all partitions.
        """
        files = PartFiles(self._workspace, "clusters", self._partition)
        parts = [part for part in self.parts if part.table == "documents" and part.rows]
        if parts:
            _create_roots(connection, parents)
            query = f"""
                SELECT document, coalesce(roots.cluster, document) AS cluster
                FROM {_read_files([self._workspace.current_file(part) for part in parts])}
                LEFT JOIN roots USING (document)
            """
            for batch in _batches(connection, query):
                files.write(None, batch.cast(CLUSTERS))
        files.close()
        self._add_part("clusters", None, files)

    def write_hosts(self) -> None:
        files = PartFiles(self._workspace, "hosts", self._partition)
        view = View(self._rows)
        for sweep in self._sweeps:
            counts = iter(view.captures_per_host(sweep).items())
            while hosts := list(islice(counts, _RESULT_ROWS_PER_BATCH)):
                columns = [
                    pa.array([hashes.url_hash(host) for host, _ in hosts]),
                    pa.array([host.decode("ascii", "replace") for host, _ in hosts]),
                    pa.array(np.full(len(hosts), sweep, np.int32)),
                    pa.array([count for _, count in hosts], pa.int64()),
                ]
                files.write(None, pa.RecordBatch.from_arrays(columns, schema=HOSTS))
        files.close()
        self._add_part("hosts", None, files)

    def _blocks(self, family: Family) -> Iterator[RowBlock]:
        for block in self._rows.blocks(family):
            self._on_rows(len(block))
            yield block

    def _write_sweep_table(self, table: TableName, pieces: Callable[[], Iterable[Piece]]) -> None:
        """Write the sweeps that were not exported before, and the sweeps whose checksums have changed."""
        previous = {sweep: self._previous.get((table, sweep, self._partition)) for sweep in self._sweeps}
        new = [sweep for sweep, part in previous.items() if part is None]
        checksums = self._write_sweeps(table, pieces, new[:_SWEEPS_PER_PASS])
        remaining = new[_SWEEPS_PER_PASS:]
        for sweep, part in previous.items():
            if part is not None and part.checksum == checksums[sweep]:
                self.parts.append(part)
            elif part is not None:
                remaining.append(sweep)
        while remaining:
            self._write_sweeps(table, pieces, remaining[:_SWEEPS_PER_PASS])
            remaining = remaining[_SWEEPS_PER_PASS:]

    def _write_sweeps(
        self, table: TableName, pieces: Callable[[], Iterable[Piece]], sweeps_to_write: Collection[int]
    ) -> dict[int, int]:
        """Write the files of some sweeps. Return the checksum of every sweep of the export."""
        checksums = dict.fromkeys(self._sweeps, 0)
        files = PartFiles(self._workspace, table, self._partition)
        for piece in pieces():
            order = np.argsort(piece.sweeps, kind="stable")
            numbers, starts = np.unique(piece.sweeps[order], return_index=True)
            for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
                if number not in checksums:
                    continue  # a cancelled sweep, or a sweep that was not requested
                checksums[number] += int(piece.checksums[rows].sum(dtype=np.int64))
                if number in sweeps_to_write:
                    for batch in piece.decode(rows):
                        files.write(number, batch)
        files.close()
        checksums = {sweep: checksum & _CHECKSUM_MASK for sweep, checksum in checksums.items()}
        for sweep in sweeps_to_write:
            self._add_part(table, sweep, files, checksums[sweep])
        return checksums

    def _add_part(self, table: TableName, sweep: int | None, files: PartFiles, checksum: int = 0) -> None:
        rows, size = files.sizes.get(sweep, (0, 0))
        part = Part(table=table, sweep=sweep, partition=self._partition, rows=rows, bytes=size, checksum=checksum)
        self.parts.append(part)

    def _capture_pieces(self) -> Iterator[Piece]:
        for block in self._blocks(Family.CAPTURES):
            sweeps, checksums = capture_columns.read_checksums(block)
            yield Piece(sweeps, checksums, partial(_decode_captures, block))

    def _create_lists(self, connection: duckdb.DuckDBPyConnection, captures: Collection[Path]) -> None:
        """Create `lists`: a row for each chunk of each list of links, with the first sweep that has the list."""
        _create_table(connection, "list_chunks", _LIST_CHUNKS, self._list_batches())
        # DISTINCT, because the URLs that are spellings of one page may have the same list.
        connection.execute(
            f"""
            CREATE OR REPLACE TABLE lists AS
            SELECT DISTINCT list_chunks.chunk, list_chunks.source, list_chunks.link_list, first_sweeps.sweep
            FROM list_chunks JOIN (
                SELECT page, link_list, min(sweep) AS sweep FROM {_read_files(captures)}
                WHERE link_list IS NOT NULL GROUP BY page, link_list
            ) AS first_sweeps
            ON list_chunks.source = first_sweeps.page AND list_chunks.link_list = first_sweeps.link_list
            """
        )
        connection.execute("DROP TABLE list_chunks")

    def _list_batches(self) -> Iterator[pa.RecordBatch]:
        for block in self._blocks(Family.LINK_LISTS):
            columns = np.empty((3, len(block.values) // 8), np.int64)
            invalid_row, count = link_columns.explode_lists(*block, columns)
            if invalid_row >= 0:
                key, value = block.row(invalid_row)
                link_list.decode_key(key)
                link_list.decode(value)
                raise AssertionError("the two decoders disagree about a list of links")
            yield pa.RecordBatch.from_arrays([pa.array(column[:count]) for column in columns], schema=_LIST_CHUNKS)

    def _link_pieces(self, connection: duckdb.DuckDBPyConnection) -> Iterator[Piece]:
        query = f"SELECT chunk, source, link_list, sweep FROM lists ORDER BY {unsigned_order('chunk')}"
        for match in join(_batches(connection, query), self._chunk_blocks()):
            distinct_rows, indexes = np.unique(match.rows, return_inverse=True)
            yield Piece(
                match.columns[3].astype(np.int32),
                _mix(*match.columns[:3]),
                partial(_expand, match, distinct_rows, indexes),
            )

    def _chunk_blocks(self) -> Iterator[KeyedBlock]:
        for block in self._blocks(Family.LINK_CHUNKS):
            rows = link_columns.chunk_rows(block)
            yield KeyedBlock(_first_8_bytes(block.keys, block.key_offsets)[rows], block, rows)

    def _document_blocks(self) -> Iterator[KeyedBlock]:
        for block in self._blocks(Family.DOCUMENTS):
            yield KeyedBlock(_first_8_bytes(block.keys, block.key_offsets), block, np.arange(len(block)))

    def _document_pieces(self, connection: duckdb.DuckDBPyConnection) -> Iterator[Piece]:
        query = f"SELECT document, sweep FROM first_sweeps ORDER BY {unsigned_order('document')}"
        for match in join(_batches(connection, query), self._document_blocks()):
            checksums = document_columns.checksums(match.block)[match.rows]
            yield Piece(
                match.columns[1].astype(np.int32),
                checksums,
                partial(_decode_documents, match),
            )


def capture_files(workspace: Workspace, parts: Iterable[Part]) -> list[Path]:
    """Return the files of captures among these parts of the new data set."""
    return [workspace.current_file(part) for part in parts if part.table == "captures" and part.rows]


def parents_file(workspace: Workspace, partition: int) -> Path:
    """Return the temporary file with the parents of a partition's documents."""
    return workspace.new_file("parents", None, partition)


def _decode_captures(block: RowBlock, rows: NDArray[np.int64]) -> list[pa.RecordBatch]:
    return [capture_columns.decode(block, rows)]


def _decode_documents(match: Match, rows: NDArray[np.int64]) -> list[pa.RecordBatch]:
    return [document_columns.decode(match.block, match.rows[rows])]


def _expand(
    match: Match, distinct_rows: NDArray[np.int64], indexes: NDArray[np.int64], rows: NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Yield the links of the chunks in these rows of a match, in batches of limited size."""
    needed, indexes = np.unique(indexes[rows], return_inverse=True)
    chunks = link_columns.decode(match.block, distinct_rows[needed])
    _, sources, lists, _ = (column[rows] for column in match.columns)
    ends = np.cumsum(np.diff(chunks.ends)[indexes])
    start = 0
    while start < len(rows):
        links_before = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, links_before + _LINKS_PER_BATCH, side="right")))
        yield link_columns.expand(chunks, indexes[start:end], sources[start:end], lists[start:end])
        start = end


def _mix(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a hash of each row."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column, factor in zip(columns, _CHECKSUM_FACTORS, strict=True):
        mixed = (mixed ^ mixed >> np.uint64(29)) + column.view(np.uint64) * factor
    return (mixed ^ mixed >> np.uint64(32)).view(np.int64)


def _create_roots(connection: duckdb.DuckDBPyConnection, parents: Collection[Path]) -> None:
    """Create the table `roots` with the root of every document that has a parent.

    Each step doubles the number of pointers that are followed. The number of steps is limited, because pointers form
    a cycle if the state is damaged.
    """
    connection.execute(f"CREATE OR REPLACE TABLE roots AS SELECT * FROM {_read_files(parents)}")
    for _ in range(_POINTER_STEPS_MAX):
        query = "SELECT 1 FROM roots SEMI JOIN roots AS next ON roots.cluster = next.document LIMIT 1"
        if not connection.execute(query).fetchall():
            return
        connection.execute(
            """
            CREATE OR REPLACE TABLE roots AS
            SELECT roots.document, coalesce(next.cluster, roots.cluster) AS cluster
            FROM roots LEFT JOIN roots AS next ON roots.cluster = next.document
            """
        )


def _first_8_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the first eight bytes of each key or value as an integer. Integers sort like the bytes."""
    first_bytes: NDArray[np.uint64] = data[offsets[:-1, None] + np.arange(8)].view(">u8").ravel().astype(np.uint64)
    return first_bytes


def _create_table(
    connection: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """Create a table with the rows of these batches."""
    connection.register("batch", schema.empty_table())
    connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM batch")
    for batch in batches:
        connection.register("batch", pa.Table.from_batches([batch]))
        connection.execute(f"INSERT INTO {table} SELECT * FROM batch")
    connection.unregister("batch")


def _batches(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    reader: pa.RecordBatchReader = connection.sql(query).to_arrow_reader(_RESULT_ROWS_PER_BATCH)
    yield from reader


def _read_files(files: Iterable[Path]) -> str:
    """Return the SQL expression that reads Parquet files as a table."""
    names = ", ".join(f"'{quote(glob.escape(str(path)))}'" for path in files)
    return f"read_parquet([{names}])"
