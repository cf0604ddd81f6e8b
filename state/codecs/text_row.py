"""A document's title and text in `texts`.

    key    document id 16 B
    value  version 1 B │ time 8 B │ CRC-32 4 B │ source 8 B │ dictionary 1 B │ title length 2 B │ title
           │ zstd frame of the text

The title precedes the frame, so that titles can be read without decompressing texts.

Pages that differ only in title, capitalisation or punctuation are the same document. The smallest of their values
(compared as bytes) is stored: the value of the earliest capture or, if several captures have this time, the value
with the smallest CRC-32 of "title, 0A, text". This choice depends neither on arrival order nor on the dictionary.
Because the earliest capture wins, nothing remains of a later sweep that is cancelled.

The source is the raw fingerprint of the chosen capture. Once no capture of the document has this fingerprint, no
remaining page contains the stored text. A value without a source has the maximum time, so all others replace it.

The dictionary byte is the number of the dictionary with which the frame was compressed, or 0. Dictionaries are stored
in `meta` under "dictionary:" ‖ number. They never change, so every frame remains readable.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from state.errors import StateCorrupt

VERSION = 1
ZSTD_LEVEL = 1  # level 3 saves 6-13% of the space (synthetic pages, three manuals) but takes 50% longer
TITLE_BYTES_MAX = 0xFFFF
TEXT_BYTES_MAX = 64 << 20  # after decompression
NO_TIME = (1 << 64) - 1
NO_SOURCE = bytes(8)
_HEAD = struct.Struct(">BQI8sBH")
_TIME = slice(1, 9)
_SOURCE = slice(13, 21)


class TextCodec:
    """Compresses with the newest dictionary, and decompresses with any. Not thread-safe."""

    def __init__(self, dictionaries: dict[int, bytes]) -> None:
        self.newest = max(dictionaries, default=0)
        assert 0 <= self.newest <= 0xFF, "a dictionary number has one byte"
        self._dictionaries = {number: zstandard.ZstdCompressionDict(data) for number, data in dictionaries.items()}
        dictionary = self._dictionaries.get(self.newest)
        if dictionary:
            dictionary.precompute_compress(level=ZSTD_LEVEL)
        self._compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL, dict_data=dictionary, write_content_size=True)
        self._decompressors: dict[int, zstandard.ZstdDecompressor] = {}

    def encode(self, title: str, text: str, time: int = NO_TIME, source: bytes = NO_SOURCE) -> bytes:
        """Encode a title and text with the time and raw fingerprint of their capture. Replace surrogates with `?`."""
        assert len(source) == len(NO_SOURCE), "a raw fingerprint has 8 bytes"
        title_bytes = title.replace("\n", " ").encode("utf-8", "replace")[:TITLE_BYTES_MAX]
        text_bytes = text.encode("utf-8", "replace")
        crc = zlib.crc32(text_bytes, zlib.crc32(title_bytes + b"\n"))
        head = _HEAD.pack(VERSION, time, crc, source, self.newest, len(title_bytes))
        return head + title_bytes + self._compressor.compress(text_bytes)

    def title(self, value: bytes) -> str:
        """Decode the title without decompressing the text."""
        return value[_HEAD.size : _end_of_title(value)].decode("utf-8", "replace")

    def decode(self, value: bytes) -> tuple[str, str]:
        """Decode a title and text. Raise StateCorrupt if the value is invalid."""
        end = _end_of_title(value)
        title = value[_HEAD.size : end].decode("utf-8", "replace")
        _, _, _, _, dictionary_number, _ = _HEAD.unpack_from(value)
        return title, self._decompress(dictionary_number, value[end:])

    def _decompress(self, dictionary_number: int, frame: bytes) -> str:
        if dictionary_number and dictionary_number not in self._dictionaries:
            raise StateCorrupt(f"a stored text needs dictionary {dictionary_number}, which is not in this state")
        decompressor = self._decompressors.get(dictionary_number)
        if decompressor is None:
            decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionaries.get(dictionary_number))
            self._decompressors[dictionary_number] = decompressor
        try:
            if zstandard.frame_content_size(frame) > TEXT_BYTES_MAX:  # zstd allocates this size up front
                raise StateCorrupt(f"a stored text would decompress to more than {TEXT_BYTES_MAX} bytes")
            data = decompressor.decompress(frame, max_output_size=TEXT_BYTES_MAX)
        except zstandard.ZstdError as error:
            raise StateCorrupt(f"a stored text cannot be decompressed: {error}") from error
        return data.decode("utf-8", "replace")


def _end_of_title(value: bytes) -> int:
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt(
            f"invalid text (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    end = _HEAD.size + int.from_bytes(value[_HEAD.size - 2 : _HEAD.size], "big")
    if len(value) < end:
        raise StateCorrupt(f"a stored text has {len(value)} bytes, but its title ends at byte {end}: truncated")
    return end


def source(value: bytes) -> bytes | None:
    """Return the raw fingerprint of the capture that contains the text; None if the value has no source."""
    fingerprint = value[_SOURCE]
    return None if fingerprint == NO_SOURCE else fingerprint


def time_of(value: bytes) -> int:
    """Return the time (ms) of the capture that contains the text, or `NO_TIME`."""
    return int.from_bytes(value[_TIME], "big")


def with_time(value: bytes, time: int) -> bytes:
    """Return the value with its time replaced by that of a different capture of the same raw bytes."""
    return value[: _TIME.start] + time.to_bytes(8, "big") + value[_TIME.stop :]


def train(texts: list[str], size_bytes: int = 64 << 10) -> bytes | None:
    """Train a dictionary on sample texts. Return None if they are too few, too short or too similar."""
    samples: list[bytes | bytearray | memoryview[int]] = [
        text[: 16 << 10].encode("utf-8", "replace") for text in texts if text
    ]
    if len(samples) < 64 or sum(map(len, samples)) < 8 * size_bytes:
        return None
    try:
        # Training with a fixed segment length (`k`) is five times as fast as searching for the best length, and makes
        # compressed texts at most 1% larger (synthetic pages 1.0%, a manual 0%).
        return bytes(zstandard.train_dictionary(size_bytes, samples, k=1024, d=8).as_bytes())
    except zstandard.ZstdError:
        return None  # the texts are too similar, so a dictionary would not help
