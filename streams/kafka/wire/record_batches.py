"""Read the batches of records that the broker returns, so that a malformed record cannot stop a consumer.

aiokafka raises an exception for a record that it cannot decode, for example because a header name is not UTF-8.
Every worker that receives the record would end, and end again after each restart. aiokafka also decompresses batches
of any size: a few kilobytes can become many gigabytes. The broker prevents neither problem.

`install` replaces aiokafka's reader. A record that cannot be decoded, or a batch that is too large, becomes an empty
record with the header `UNREADABLE`, whose value is the reason. The agents reject this record like any bad message.

    batch    base offset, 8 bytes │ length, 4 │ epoch, 4 │ magic, 1 │ CRC, 4 │ attributes, 2 │ ... │ records
    record   length │ attributes, 1 byte │ time │ offset │ key │ value │ headers       (lengths and numbers: varints)

A wrong checksum still raises an exception, because reading the batch again may help. The broker checks each checksum
that a producer sends.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import cramjam
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBase, DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from aiokafka.record.util import decode_varint

UNREADABLE = "lostfound-unreadable"
_LENGTH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_LENGTH_START, _LENGTH_END, _MAGIC_START = 8, 12, 16
_ATTRIBUTES_START = DefaultRecordBase.ATTRIBUTES_OFFSET
_RECORDS_START = DefaultRecordBase.HEADER_STRUCT.size
_XERIAL = b"\x82SNAPPY\0"  # at the start of snappy data that a Java producer has split into blocks
_XERIAL_HEADER_BYTES = 16
_INITIAL_BUFFER_BYTES = 1 << 16
_DETAIL_CHARACTERS_MAX = 300
_DECODE_ERRORS = (ValueError, IndexError, OverflowError)


class Record(NamedTuple):
    """A record with the attributes that aiokafka's consumer reads."""

    offset: int
    timestamp: int  # ms since the epoch, UTC
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    checksum: None = None


class Batches:
    """The batches in a response of the broker. The last batch is ignored if it is incomplete."""

    batch_bytes_max = 0  # set by `install`

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._start = 0

    def size_in_bytes(self) -> int:
        """Return the size of the response."""
        return len(self._data)

    def has_next(self) -> bool:
        """Return whether there is another complete batch."""
        return len(self._data) - self._start >= _RECORDS_START and self._end() <= len(self._data)

    def next_batch(self) -> Any:
        """Return the next batch."""
        start, self._start = self._start, self._end()
        data = self._data[start : self._start]
        magic = data[_MAGIC_START]
        return Batch(data, self.batch_bytes_max) if magic >= 2 else LegacyRecordBatch(data, magic)

    def _end(self) -> int:
        (length,) = _LENGTH.unpack_from(self._data, self._start + _LENGTH_START)
        return self._start + _LENGTH_END + int(length)


class Batch:
    """One batch: aiokafka's batch, except that iterating over it never raises an exception."""

    def __init__(self, data: bytes, bytes_max: int) -> None:
        self._data, self._bytes_max = data, bytes_max
        self._batch = DefaultRecordBatch(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)  # aiokafka reads the record of a transaction marker this way

    def __iter__(self) -> Iterator[Any]:
        try:
            data = decompress(self._data, self._batch.compression_type, self._bytes_max)
        except (ValueError, KeyError, zlib.error, cramjam.DecompressionError, struct.error) as error:
            offsets = f"offsets {self._batch.base_offset} to {self._batch.next_offset - 1}"
            yield self._unreadable(self._batch.base_offset, f"a batch ({offsets}) cannot be decompressed: {error}")
            return
        batch = DefaultRecordBatch(data)
        record_count = 0
        try:
            for record in batch:
                record_count += 1
                yield record
        except Exception:  # noqa: BLE001 - whatever the decoder raises for hostile bytes
            yield from islice(self._salvage(data), record_count, None)

    def _salvage(self, data: bytes) -> Iterator[Record]:
        """Yield all records. Replace each malformed record with an unreadable record."""
        position, offset = _RECORDS_START, self._batch.base_offset
        while position < len(data):
            try:
                record_bytes, position = _read_bytes(data, position)
            except _DECODE_ERRORS as error:
                yield self._unreadable(offset, f"the rest of the batch is malformed: {error}")
                return
            try:
                record = self._decode(record_bytes or b"")
            except _DECODE_ERRORS as error:
                record = self._unreadable(offset, f"the record is malformed: {error}")
            yield record
            offset = record.offset + 1

    def _decode(self, data: bytes) -> Record:
        batch = self._batch
        time_delta, position = decode_varint(data, 1)
        offset_delta, position = decode_varint(data, position)
        offset = batch.base_offset + offset_delta
        timestamp = batch.max_timestamp if batch.timestamp_type else batch.first_timestamp + time_delta
        key, position = _read_bytes(data, position)
        value, position = _read_bytes(data, position)
        header_count, position = decode_varint(data, position)
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(header_count):
            name, position = _read_bytes(data, position)
            header_value, position = _read_bytes(data, position)
            try:
                headers.append(((name or b"").decode(), header_value))
            except UnicodeDecodeError:
                return self._unreadable(offset, f"the name of a header is not UTF-8: {(name or b'')[:100]!r}")
        return Record(offset, timestamp, batch.timestamp_type, key, value, headers)

    def _unreadable(self, offset: int, reason: str) -> Record:
        headers: list[tuple[str, bytes | None]] = [(UNREADABLE, reason[:_DETAIL_CHARACTERS_MAX].encode())]
        return Record(offset, self._batch.max_timestamp, self._batch.timestamp_type, None, None, headers)


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = decode_varint(data, position)
    if length < 0:
        return None, start
    if length > len(data) - start:
        raise ValueError(f"a field has {length} bytes and is cut off")
    return data[start : start + length], start + length


def decompress(batch: bytes, compression_type: int, bytes_max: int) -> bytes:
    """Return a batch with its records decompressed. Raise ValueError if they have more than `bytes_max` bytes."""
    if compression_type == DefaultRecordBatch.CODEC_NONE:
        return batch
    records = _DECOMPRESSORS[compression_type](batch[_RECORDS_START:], bytes_max)
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_START)
    uncompressed = bytearray(batch[:_RECORDS_START]) + records
    _ATTRIBUTES.pack_into(uncompressed, _ATTRIBUTES_START, attributes & ~DefaultRecordBatch.CODEC_MASK)
    _LENGTH.pack_into(uncompressed, _LENGTH_START, len(uncompressed) - _LENGTH_END)
    return bytes(uncompressed)


def _too_large(bytes_max: int) -> ValueError:
    return ValueError(f"it has more than {bytes_max} bytes, see kafka.batch_bytes_max")


def _gunzip(data: bytes, bytes_max: int) -> bytes:
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    records = decompressor.decompress(data, bytes_max + 1)
    if len(records) > bytes_max:
        raise _too_large(bytes_max)
    if not decompressor.eof:
        raise ValueError("it is cut off")
    return records


def _unsnappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL):
        blocks = [data]
    else:
        blocks, position = [], _XERIAL_HEADER_BYTES
        while position < len(data):
            (length,) = _LENGTH.unpack_from(data, position)
            if length <= 0:
                raise ValueError(f"the length of a block is {length}")
            position += _LENGTH.size + length
            blocks.append(data[position - length : position])
    if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > bytes_max:
        raise _too_large(bytes_max)
    return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)


def _decompress_into_buffer(decompress_into: Callable[[bytes, bytearray], int], data: bytes, bytes_max: int) -> bytes:
    size = min(bytes_max, max(_INITIAL_BUFFER_BYTES, 8 * len(data)))
    while True:
        buffer = bytearray(size)
        try:
            length = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise
            if size == bytes_max:
                raise _too_large(bytes_max) from error
            size = min(bytes_max, 8 * size)
        else:
            return bytes(memoryview(buffer)[:length])


_DECOMPRESSORS: dict[int, Callable[[bytes, int], bytes]] = {
    DefaultRecordBatch.CODEC_GZIP: _gunzip,
    DefaultRecordBatch.CODEC_SNAPPY: _unsnappy,
    DefaultRecordBatch.CODEC_LZ4: partial(_decompress_into_buffer, cramjam.lz4.decompress_into),
    DefaultRecordBatch.CODEC_ZSTD: partial(_decompress_into_buffer, cramjam.zstd.decompress_into),
}


def install(batch_bytes_max: int) -> None:
    """Install this reader for all consumers of this process, with a limit on the decompressed size of a batch."""
    Batches.batch_bytes_max = batch_bytes_max
    fetcher.MemoryRecords = Batches
