"""Write the new files of a table: one Parquet file per sweep, in row groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from streams.export.data_set import Workspace
from streams.export.schema import TABLES

_ROWS_PER_GROUP = 1 << 17
_BUFFERED_BYTES_MAX = 1 << 26  # of all files together
# Columns with few distinct values.
_DICTIONARY_COLUMNS = ["host", "status", "sweep", "source", "target_host", "link_list", "kind", "name"]


class PartFiles:
    """Collects rows by sweep, and writes them as row groups. For tables without sweeps, the sweep is None."""

    def __init__(self, workspace: Workspace, table: str, partition: int) -> None:
        self._workspace, self._table, self._partition = workspace, table, partition
        self._files: dict[int | None, _PartFile] = {}
        self.sizes: dict[int | None, tuple[int, int]] = {}  # the rows and bytes of each complete file

    def write(self, sweep: int | None, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if sweep not in self._files:
            path = self._workspace.new_file(self._table, sweep, self._partition)
            self._files[sweep] = _PartFile(path, TABLES[self._table])
        self._files[sweep].add(batch)
        while sum(writer.buffered_bytes for writer in self._files.values()) > _BUFFERED_BYTES_MAX:
            max(self._files.values(), key=lambda writer: writer.buffered_bytes).flush()

    def close(self) -> None:
        """Complete the files, and fill in `sizes`."""
        self.sizes = {sweep: writer.close() for sweep, writer in self._files.items()}


class _PartFile:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._schema = path, schema
        dictionaries = [name for name in _DICTIONARY_COLUMNS if name in schema.names]
        # Sketches are nearly random: for them, zstd takes twice as long and saves nothing.
        compression, level = ("snappy", None) if "signature" in schema.names else ("zstd", 1)
        self._writer = pq.ParquetWriter(
            path, schema, compression=compression, compression_level=level, use_dictionary=dictionaries or False
        )
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._buffered_rows = self.buffered_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self._rows += batch.num_rows
        self._buffered_rows += batch.num_rows
        self.buffered_bytes += batch.nbytes
        if self._buffered_rows >= _ROWS_PER_GROUP:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, self._schema), self._buffered_rows)
        self._batches, self._buffered_rows, self.buffered_bytes = [], 0, 0

    def close(self) -> tuple[int, int]:
        self.flush()
        self._writer.close()
        return self._rows, self._path.stat().st_size
