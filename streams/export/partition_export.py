"""Write the files of one partition of a data set. The embedded engine has a single partition, with the number 0.

    captures, links, hosts    from the partition's own rows
    documents, clusters       also from the captures of all partitions, which are stored with their URLs

Every pass over the rows adds up a checksum per sweep. A sweep whose checksum is that of the previous export keeps its
files; another pass writes those that differ, such as after `forget`.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from state.codecs import link_list
from state.families import Family
from state.row_blocks import RowBlock, read_blocks
from state.rows import RowReader
from state.view import View
from streams.export import capture_columns, document_columns, hashes, link_columns
from streams.export.data_set import Part, current_file
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
_LINKS_PER_BATCH = 1 << 18
_RESULT_ROWS_PER_BATCH = 1 << 16
_PAIRS = pa.schema([("source", pa.int64()), ("link_list", pa.int64()), ("chunk", pa.int64())])
_CHECKSUM_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))
_CHECKSUM_MASK = (1 << 63) - 1

PartKey = tuple[str, int | None, int]


class Piece(NamedTuple):
    """Rows of one or more sweeps, which are decoded only if their sweeps are written."""

    sweeps: NDArray[np.int32]
    checksums: NDArray[np.int64]
    decode: Callable[[NDArray[np.int64]], Iterable[pa.RecordBatch]]  # returns the columns of some of the rows


class PartitionExport:
    """Writes new files for the parts that differ from `previous`, and collects all parts in `parts`."""

    def __init__(
        self,
        folder: Path,
        rows: RowReader,
        *,
        sweeps: Collection[int],
        previous: Mapping[PartKey, Part],
        partition: int = 0,
        on_rows: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Prepare to write these sweeps. `on_rows` is called with the number of rows read, and may raise an error."""
        self.parts: list[Part] = []
        self._folder, self._rows, self._partition = folder, rows, partition
        self._sweeps, self._previous, self._on_rows = sorted(sweeps), previous, on_rows

    def write_captures(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Write captures, links and hosts."""
        self._write_sweep_table("captures", self._capture_pieces)
        if any(part.rows for part in self.parts):
            self._create_lists(connection)
            self._write_sweep_table("links", lambda: self._link_pieces(connection))
        self._write_hosts()

    def write_documents(
        self, connection: duckdb.DuckDBPyConnection, captures: Collection[Path], lookups: RowReader
    ) -> None:
        """Write documents and clusters.

        `captures` are the files of captures of all partitions, and `lookups` reads the rows of all partitions.
        """
        if captures:
            connection.execute(
                "CREATE OR REPLACE TABLE first_sweeps AS SELECT document, min(sweep) AS sweep"
                f" FROM {_read_files(captures)} WHERE document IS NOT NULL GROUP BY document"
            )
            self._write_sweep_table("documents", lambda: self._document_pieces(connection))
        self._write_clusters(connection, View(lookups))

    def _blocks(self, family: Family, prefix: bytes = b"") -> Iterator[RowBlock]:
        for block in read_blocks(self._rows.scan(family, prefix)):
            self._on_rows(len(block))
            yield block

    def _write_sweep_table(self, table: str, pieces: Callable[[], Iterable[Piece]]) -> None:
        """Write the sweeps that were not exported before, and those whose checksums differ."""
        previous = {sweep: self._previous.get((table, sweep, self._partition)) for sweep in self._sweeps}
        new = [sweep for sweep, part in previous.items() if part is None]
        checksums = self._write_sweeps(table, pieces, new[:_SWEEPS_PER_PASS])
        rest = new[_SWEEPS_PER_PASS:]
        for sweep, part in previous.items():
            if part is not None and part.checksum == checksums[sweep]:
                self.parts.append(part)
            elif part is not None:
                rest.append(sweep)
        while rest:
            self._write_sweeps(table, pieces, rest[:_SWEEPS_PER_PASS])
            rest = rest[_SWEEPS_PER_PASS:]

    def _write_sweeps(
        self, table: str, pieces: Callable[[], Iterable[Piece]], written: Collection[int]
    ) -> dict[int, int]:
        """Write the files of some sweeps. Return the checksums of all sweeps."""
        checksums = dict.fromkeys(self._sweeps, 0)
        files = PartFiles(self._folder, table, self._partition)
        for piece in pieces():
            order = np.argsort(piece.sweeps, kind="stable")
            numbers, starts = np.unique(piece.sweeps[order], return_index=True)
            for number, rows in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
                if number not in checksums:
                    continue  # a cancelled sweep, or one that was not asked for
                checksums[number] += int(piece.checksums[rows].sum(dtype=np.int64))
                if number in written:
                    for batch in piece.decode(rows):
                        files.write(number, batch)
        files.close()
        checksums = {sweep: checksum & _CHECKSUM_MASK for sweep, checksum in checksums.items()}
        for sweep in written:
            self._add_part(table, sweep, files, checksums[sweep])
        return checksums

    def _add_part(self, table: str, sweep: int | None, files: PartFiles, checksum: int = 0) -> None:
        rows, size = files.sizes.get(sweep, (0, 0))
        part = Part(table=table, sweep=sweep, partition=self._partition, rows=rows, bytes=size, checksum=checksum)
        self.parts.append(part)

    def _capture_pieces(self) -> Iterator[Piece]:
        for block in self._blocks(Family.CAPTURES):
            heads = capture_columns.read_heads(block)
            yield Piece(*heads, lambda rows, block=block: [capture_columns.decode(block, rows)])

    def _create_lists(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Create the table `lists`: a row per list of links and chunk, with the first sweep that names the list."""
        captures = [current_file(self._folder, part) for part in self.parts if part.rows]
        _insert(connection, "list_chunks", _PAIRS, self._list_batches())
        # Lists of different URLs that are spellings of the same page may be equal.
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
            pairs = np.empty((3, len(block.values) // 8), np.int64)
            invalid, count = link_columns.explode_lists(*block, pairs)
            if invalid >= 0:
                key, value = block.row(invalid)
                link_list.decode_key(key)
                link_list.decode(value)
            yield pa.RecordBatch.from_arrays([pa.array(column[:count]) for column in pairs], schema=_PAIRS)

    def _link_pieces(self, connection: duckdb.DuckDBPyConnection) -> Iterator[Piece]:
        query = f"SELECT chunk, source, link_list, sweep FROM lists ORDER BY {unsigned_order('chunk')}"
        for match in join(_batches(connection, query), self._chunk_blocks()):
            distinct_rows, indexes = np.unique(match.rows, return_inverse=True)
            yield Piece(
                match.columns[3].astype(np.int32),
                _mix(*match.columns[:3]),
                lambda rows, match=match, distinct_rows=distinct_rows, indexes=indexes: _expand(
                    match, distinct_rows, indexes, rows
                ),
            )

    def _chunk_blocks(self) -> Iterator[KeyedBlock]:
        for block in self._blocks(Family.LINK_CHUNKS):
            rows = link_columns.chunk_rows(block)
            yield KeyedBlock(_first_8_bytes(block)[rows], block, rows)

    def _document_blocks(self) -> Iterator[KeyedBlock]:
        for block in self._blocks(Family.DOCUMENTS):
            yield KeyedBlock(_first_8_bytes(block), block, np.arange(len(block)))

    def _document_pieces(self, connection: duckdb.DuckDBPyConnection) -> Iterator[Piece]:
        query = f"SELECT document, sweep FROM first_sweeps ORDER BY {unsigned_order('document')}"
        for match in join(_batches(connection, query), self._document_blocks()):
            checksums = document_columns.checksums(match.block)[match.rows]
            yield Piece(
                match.columns[1].astype(np.int32),
                checksums,
                lambda rows, match=match: [document_columns.decode(match.block, match.rows[rows])],
            )

    def _write_clusters(self, connection: duckdb.DuckDBPyConnection, view: View) -> None:
        """Write the root of every document."""
        files = PartFiles(self._folder, "clusters", self._partition)
        parts = [part for part in self.parts if part.table == "documents" and part.rows]
        if parts:
            _insert(connection, "children", CLUSTERS, self._child_batches(view))
            # A document without a parent is a root.
            query = f"""
                SELECT document, coalesce(children.cluster, document) AS cluster
                FROM {_read_files([current_file(self._folder, part) for part in parts])}
                LEFT JOIN children USING (document)
            """
            for batch in _batches(connection, query):
                files.write(None, batch.cast(CLUSTERS))
        files.close()
        self._add_part("clusters", None, files)

    def _child_batches(self, view: View) -> Iterator[pa.RecordBatch]:
        """Yield the documents that have a parent, with the roots of their clusters."""
        for block in self._blocks(Family.PARENTS):
            parents = [block.row(row)[1] for row in range(len(block))]
            distinct_parents = sorted(set(parents))
            roots = {
                parent: hashes.id_hash(root)
                for parent, root in zip(distinct_parents, view.roots(distinct_parents), strict=True)
            }
            columns = [pa.array(_first_8_bytes(block).view(np.int64)), pa.array([roots[p] for p in parents])]
            yield pa.RecordBatch.from_arrays(columns, schema=CLUSTERS)

    def _write_hosts(self) -> None:
        files = PartFiles(self._folder, "hosts", self._partition)
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


def _expand(
    match: Match, distinct_rows: NDArray[np.int64], indexes: NDArray[np.int64], rows: NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Yield the links of some pairs of a list and a chunk, in batches of limited size."""
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


def _first_8_bytes(block: RowBlock) -> NDArray[np.uint64]:
    """Return the first eight bytes of each key as an integer, in the order of the keys."""
    starts = block.key_offsets[:-1]
    return block.keys[starts[:, None] + np.arange(8)].reshape(-1, 8).view(">u8").ravel().astype(np.uint64)


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """Create a table with these rows."""
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
    """Return the call that reads Parquet files in SQL."""
    names = ", ".join(f"'{quote(glob.escape(str(path)))}'" for path in files)
    return f"read_parquet([{names}])"
