"""Find damage in RocksDB's write-ahead logs, which hold the batches that are not yet in tables.

A log is a sequence of blocks of 32 KiB. A record contains one batch, split into fragments that do not cross
block boundaries:

    masked CRC32C of kind and payload, 4 bytes LE | length of the payload, 2 bytes LE | kind, 1 byte | payload

If the writer is killed, the log may end within a record: its tail is torn, and the batch in it was never committed.
After a power cut, the tail may also consist of zeros. Any other deviation is damage, for example from a faulty disk.

RocksDB verifies the checksums when it opens a state, but mistakes two kinds of damage for a torn tail: a length that
extends beyond the end of the log, and a kind that makes a fragment look like a leftover from an older log.
`find_damage` detects both from the headers alone. It verifies checksums only on request: for a repair, and after
RocksDB has reported an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from state import inventory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BLOCK_BYTES = 1 << 15
_SECTOR_BYTES = 512  # a disk writes either all of a sector or nothing of it
_HEADER = struct.Struct("<IHB")
_KIND_OFFSET = 6  # the checksum covers the kind and the payload
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_BATCH_HEADER_BYTES = 12
_DELETE, _PUT, _DELETE_IN_FAMILY, _PUT_IN_FAMILY = 0, 1, 4, 5  # tags of the changes in a batch
_POLYNOMIAL = 0x82F63B78  # CRC32C, with the bits reversed
_INITIAL_CRC = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


class Damage(NamedTuple):
    """The first damaged log, and the end of its last intact record."""

    file: Path
    intact_bytes: int


class _Scan(NamedTuple):
    """The end of the last intact record, and whether the bytes after it are damaged rather than torn."""

    intact_bytes: int
    is_damaged: bool


def find_damage(folder: Path, *, verify_checksums: bool = False) -> Damage | None:
    """Return the first damage in the logs of a state, or None. A torn tail is damage if a later log is not empty."""
    logs = logs_in_order(folder)
    for index, log in enumerate(logs):
        with suppress(FileNotFoundError):  # a writer has just deleted the log
            scan = _scan(log, verify_checksums=verify_checksums)
            is_torn = scan.intact_bytes < log.stat().st_size
            if scan.is_damaged or (is_torn and any(later.stat().st_size for later in logs[index + 1 :])):
                return Damage(log, scan.intact_bytes)
    return None


def find_manifest_damage(folder: Path) -> Damage | None:
    """Return damage that RocksDB would mistake for the end of the manifest, or None. Its format is that of a log."""
    manifest = inventory.current_manifest(folder)
    if manifest not in inventory.list_files(folder):
        return None  # RocksDB reports a missing manifest
    with suppress(FileNotFoundError):  # a writer has just replaced the manifest
        scan = _scan(folder / manifest, verify_checksums=False)
        return Damage(folder / manifest, scan.intact_bytes) if scan.is_damaged else None
    return None


def logs_in_order(folder: Path) -> list[Path]:
    """Return the logs of a state, the oldest first."""
    return sorted((folder / name for name in inventory.list_logs(folder)), key=lambda log: int(log.stem))


def rows_after(damage: Damage) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows, of any column family, in the intact batches after the damage. RocksDB skips these batches."""
    logs = logs_in_order(damage.file.parent)
    for log in logs[logs.index(damage.file) :]:
        for batch in _intact_records(log, damage.intact_bytes if log == damage.file else 0):
            yield from _put_rows(batch)


def _intact_records(log: Path, start: int) -> Iterator[bytes]:
    """Yield the intact records after `start`. After a damaged fragment, continue at its end or in the next block."""
    payloads: list[bytes] | None = None  # of the current record; None until the next record begins
    with log.open("rb") as stream:
        stream.seek(start - start % _BLOCK_BYTES)
        position = start % _BLOCK_BYTES
        while block := stream.read(_BLOCK_BYTES):
            while position + _HEADER.size <= len(block):
                checksum, length, kind = _HEADER.unpack_from(block, position)
                end = position + _HEADER.size + length
                fragment, position = block[position:end], end
                if end > len(block) or _masked(crc32c(fragment[_KIND_OFFSET:])) != checksum:
                    payloads = None
                    continue
                if kind in (_FULL, _FIRST):
                    payloads = []
                if payloads is not None:
                    payloads.append(fragment[_HEADER.size :])
                    if kind in (_FULL, _LAST):
                        yield b"".join(payloads)
            position = 0


def _put_rows(batch: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows that a batch writes.

    A batch is a header, followed by changes. Each change is a tag, the number of the column family (omitted for the
    default family), the key and, unless the row is deleted, the value. Numbers are varints. The length of each key
    and value precedes it.
    """
    position = _BATCH_HEADER_BYTES
    while position < len(batch):
        tag = batch[position]
        position += 1
        if tag not in (_PUT, _PUT_IN_FAMILY, _DELETE, _DELETE_IN_FAMILY):
            return
        if tag in (_PUT_IN_FAMILY, _DELETE_IN_FAMILY):
            _, position = _varint(batch, position)
        length, position = _varint(batch, position)
        key, position = batch[position : position + length], position + length
        if tag in (_PUT, _PUT_IN_FAMILY):
            length, position = _varint(batch, position)
            value, position = batch[position : position + length], position + length
            yield key, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it. Each byte has 7 bits, the lowest bits first."""
    number = shift = 0
    while position < len(data):
        byte, position = data[position], position + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return number, position


def _scan(file: Path, *, verify_checksums: bool) -> _Scan:
    intact_bytes, block_start, is_inside_record = 0, 0, False
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            is_last_block = len(block) < _BLOCK_BYTES
            start = 0
            while start + _HEADER.size <= len(block):
                checksum, length, kind = _HEADER.unpack_from(block, start)
                end = start + _HEADER.size + length
                if end > len(block) and is_last_block:
                    return _Scan(intact_bytes, _begins_with_fragment(block[start + _KIND_OFFSET :], checksum))
                if (
                    end > len(block)
                    or kind not in ((_MIDDLE, _LAST) if is_inside_record else (_FULL, _FIRST))
                    or (verify_checksums and _masked(crc32c(block[start + _KIND_OFFSET : end])) != checksum)
                ):
                    rest = block[start:] + stream.read()
                    return _Scan(intact_bytes, not _is_zeroed_tail(rest, block_start + start, end - start))
                is_inside_record = kind in (_FIRST, _MIDDLE)
                if not is_inside_record:
                    intact_bytes = block_start + end
                start = end
            block_start += len(block)
    return _Scan(intact_bytes, is_damaged=False)


def _begins_with_fragment(rest: bytes, checksum: int) -> bool:
    """Return whether any prefix of `rest` has this checksum: the fragment is complete, but its length is wrong."""
    crc = _INITIAL_CRC
    for byte in rest:
        crc = _next_crc(crc, byte)
        if _masked(crc ^ _INITIAL_CRC) == checksum:
            return True
    return False


def _is_zeroed_tail(rest: bytes, offset: int, fragment_bytes: int) -> bool:
    """Return whether the rest of a log, from `offset`, is zeros, or zeros from a sector in its first fragment."""
    nonzero_bytes = len(rest.rstrip(b"\0"))
    zeros_start = -(-(offset + nonzero_bytes) // _SECTOR_BYTES) * _SECTOR_BYTES if nonzero_bytes else offset
    return zeros_start < min(offset + fragment_bytes, offset + len(rest))


def crc32c(data: bytes) -> int:
    """Return the CRC32C of up to 32 KiB. CRCs are linear, so the contributions of the bytes are XORed."""
    import numpy as np

    contributions, initial_contributions = _contributions()
    values = np.frombuffer(data, np.uint8)[::-1]
    combined = np.bitwise_xor.reduce(contributions[np.arange(len(data)), values])
    return int(combined) ^ int(initial_contributions[len(data)]) ^ _INITIAL_CRC


@cache
def _contributions() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what each byte value, and the initial value, contributes to a checksum. In row n, n bytes follow."""
    import numpy as np

    table = np.array(_crc_table(), np.uint32)
    columns = np.append(table, np.uint32(_INITIAL_CRC))  # the last column is for the initial value
    rows = np.empty((_BLOCK_BYTES + 1, len(columns)), np.uint32)
    for row in rows:
        row[:] = columns
        columns = table[columns & 0xFF] ^ (columns >> np.uint32(8))
    return rows[:, :-1], rows[:, -1]


def _next_crc(crc: int, byte: int) -> int:
    return _crc_table()[(crc ^ byte) & 0xFF] ^ (crc >> 8)


def _masked(crc: int) -> int:
    """Return a checksum in the form that RocksDB stores."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


@cache
def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return table
