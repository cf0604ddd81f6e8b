"""Test that malformed records and batches are read without exceptions, and that well-formed ones are unchanged."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c

from streams.kafka.wire.packed_messages import BadMessage, check_readable
from streams.kafka.wire.record_batches import UNREADABLE, Batches

CODECS = {
    "none": DefaultRecordBatch.CODEC_NONE,
    "gzip": DefaultRecordBatch.CODEC_GZIP,
    "snappy": DefaultRecordBatch.CODEC_SNAPPY,
    "lz4": DefaultRecordBatch.CODEC_LZ4,
    "zstd": DefaultRecordBatch.CODEC_ZSTD,
}
BYTES_MAX = 1 << 20
Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
RECORDS: list[Fields] = [
    (b"key", b"first", [("schema", b"a"), ("empty", b""), ("none", None)]),
    (None, b"second", [("bad-name", b"b")]),
    (b"\xff", None, []),
    (b"", b"fourth" * 1000, [("schema", b"d")]),
]


@pytest.fixture(autouse=True)
def bytes_max(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batches, "batch_bytes_max", BYTES_MAX)


def build(records: Sequence[Fields], codec: str = "none", base_offset: int = 7) -> bytes:
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, -1, -1, -1, 1 << 26)
    for index, (key, value, headers) in enumerate(records):
        assert builder.append(index, 1_000 + index, key, value, headers) is not None
    data = bytearray(builder.build())
    data[:8] = base_offset.to_bytes(8, "big")
    return bytes(data)


def read(data: bytes) -> list[Any]:
    batches, records = Batches(data), []
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        records += list(batch)
    return records


def fields(record: Any) -> tuple[Any, ...]:
    return (record.offset, record.timestamp, record.timestamp_type, record.key, record.value, list(record.headers))


def with_crc(data: bytes) -> bytes:
    return data[:17] + int(calc_crc32c(data[21:])).to_bytes(4, "big") + data[21:]


@pytest.mark.parametrize("codec", CODECS)
def test_well_formed_batches_are_read_as_by_aiokafka(codec: str) -> None:
    data = build(RECORDS, codec) + build(RECORDS[:1], codec, base_offset=20) + build(RECORDS, codec)[:-1]
    expected, memory = [], MemoryRecords(data)
    while memory.has_next():
        expected += list(memory.next_batch())
    assert [fields(record) for record in read(data)] == [fields(record) for record in expected]
    assert len(expected) == 5


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_header_name_that_is_not_utf_8_makes_only_its_record_unreadable(codec: str) -> None:
    records = [(key, value, headers * 2) for key, value, headers in RECORDS]
    plain = build(records)
    bad = with_crc(plain.replace(b"bad-name", b"bad\xffname"))
    if codec == "zstd":
        import cramjam

        packed = bad[:61] + bytes(cramjam.zstd.compress(bad[61:]))
        bad = with_crc(packed[:8] + (len(packed) - 12).to_bytes(4, "big") + packed[12:21] + b"\0\4" + packed[23:])
    with pytest.raises(UnicodeDecodeError):
        list(MemoryRecords(bad).next_batch())
    first, second, *others = read(bad)
    assert [fields(record) for record in (first, *others)] == [
        fields(record) for record in read(plain) if record.offset != second.offset
    ]
    assert second.offset == 8
    with pytest.raises(BadMessage, match=r"the name of a header is not UTF-8: b'bad\\\\xffname'"):
        check_readable(second.headers)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_a_batch_is_not_decompressed_beyond_the_limit(codec: str) -> None:
    data = build([(None, b"\0" * (64 << 20), [])], codec)
    tracemalloc.start()
    try:
        (record,) = read(data)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    ((name, reason),) = record.headers
    assert (record.offset, record.value, name) == (7, None, UNREADABLE)
    assert b"more than 1048576 bytes, see kafka.batch_bytes_max" in reason


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_records_do_not_raise(codec: str) -> None:
    data = build(RECORDS, codec)
    for position in range(61, min(len(data), 400)):
        for byte in (0, 1, 0x7F, 0xFF):
            damaged = with_crc(data[:position] + bytes([byte]) + data[position + 1 :])
            records = read(damaged)
            assert records, f"no record, so the position would not move past byte {position}"


def test_an_unknown_codec_makes_a_batch_unreadable() -> None:
    data = build(RECORDS)
    (record,) = read(with_crc(data[:21] + b"\0\7" + data[23:]))
    assert record.offset == 7
    assert record.headers[0][0] == UNREADABLE
