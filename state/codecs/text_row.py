"""A document's title and text in `texts`.

    key    document id 16
    value  version 1 │ time 8 │ crc 4 │ source 8 │ dictionary 1 │ title length 2 │ title │ zstd frame of the text

The title precedes the frame, so that titles can be read without decompressing texts.

Several pages may be the same document with different titles, capitals or punctuation. The smallest of their values is
stored: the value of the earliest capture or, among captures of the same instant, the one with the smallest CRC-32 of
"title, 0A, text". It depends neither on the order in which pages arrive nor on the dictionary of their frames, and
nothing of a later sweep remains after the sweep is cancelled.

The source is the raw fingerprint of that capture. If no capture of the document has this fingerprint any more, no
remaining page has the stored text. A value without a source has the maximum time, so any other value replaces it.

The dictionary is the number of the dictionary that was used to compress the frame, or 0. Dictionaries are in `meta`
under "dictionary:" ‖ number and never change, so a frame can always be read.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from state.errors import StateCorrupt

VERSION = 1
LEVEL = 1  # of zstd; level 3 takes 6 to 13 % fewer bytes (synthetic pages, three sites' manuals) and 50 % more time
TITLE_BYTES_MAX = 0xFFFF
TEXT_BYTES_MAX = 64 << 20  # decompressed
NO_TIME = (1 << 64) - 1
NO_SOURCE = bytes(8)
_HEAD = struct.Struct(">BQI8sBH")
_SOURCE = slice(13, 21)


class TextCodec:
    """Compresses with the newest dictionary, decompresses with any; not thread-safe."""

    def __init__(self, dictionaries: dict[int, bytes]) -> None:
        self.newest = max(dictionaries, default=0)
        assert 0 <= self.newest <= 0xFF, "a dictionary number has one byte"
        self._dictionaries = {n: zstandard.ZstdCompressionDict(data) for n, data in dictionaries.items()}
        dictionary = self._dictionaries.get(self.newest)
        if dictionary:
            dictionary.precompute_compress(level=LEVEL)
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=dictionary, write_content_size=True)
        self._decompressors: dict[int, zstandard.ZstdDecompressor] = {}

    def encode(self, title: str, text: str, time: int = NO_TIME, source: bytes = NO_SOURCE) -> bytes:
        """Encode title and text with the time and the raw fingerprint of their capture; surrogates become `?`."""
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
        """Decode title and text; raises StateCorrupt."""
        end = _end_of_title(value)
        title = value[_HEAD.size : end].decode("utf-8", "replace")
        return title, self._decompress(_HEAD.unpack_from(value)[4], value[end:])

    def _decompress(self, number: int, frame: bytes) -> str:
        if number and number not in self._dictionaries:
            raise StateCorrupt(f"a text needs dictionary {number}, which is not in this state")
        decompressor = self._decompressors.get(number)
        if decompressor is None:
            decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionaries.get(number))
            self._decompressors[number] = decompressor
        try:
            if zstandard.frame_content_size(frame) > TEXT_BYTES_MAX:  # zstd allocates this size up front
                raise StateCorrupt(f"a stored text would decompress to more than {TEXT_BYTES_MAX} bytes")
            data = decompressor.decompress(frame, max_output_size=TEXT_BYTES_MAX)
        except zstandard.ZstdError as error:
            raise StateCorrupt(f"a stored text cannot be decompressed: {error}") from error
        return data.decode("utf-8", "replace")


def _end_of_title(value: bytes) -> int:
    if len(value) < _HEAD.size or value[0] != VERSION:
        raise StateCorrupt(f"not a text of version {VERSION}: cut short, or written by a newer lostfound")
    end = _HEAD.size + int.from_bytes(value[_HEAD.size - 2 : _HEAD.size], "big")
    if len(value) < end:
        raise StateCorrupt(f"a stored text of {len(value)} bytes has a title up to {end}: cut short")
    return end


def source(value: bytes) -> bytes | None:
    """Return the raw fingerprint of the capture that a value comes from, or None."""
    fingerprint = value[_SOURCE]
    return None if fingerprint == NO_SOURCE else fingerprint


def seen_at(value: bytes, time: int) -> bytes:
    """Return the value with the time of another capture with the same raw bytes."""
    return value[:1] + time.to_bytes(8, "big") + value[9:]


def train(texts: list[str], size_bytes: int = 64 << 10) -> bytes | None:
    """Train a dictionary on sample texts; None if they are too few or too similar."""
    samples: list[bytes | bytearray | memoryview[int]] = [
        text[: 16 << 10].encode("utf-8", "replace") for text in texts if text
    ]
    if len(samples) < 64 or sum(map(len, samples)) < 8 * size_bytes:
        return None
    try:
        # Segments of fixed length take a fifth of the time of a search for the best length, and make texts at most
        # 1 % larger (synthetic pages 1.0 %, a manual 0).
        return bytes(zstandard.train_dictionary(size_bytes, samples, k=1024, d=8).as_bytes())
    except zstandard.ZstdError:
        return None  # the texts are too similar, so a dictionary would not help either
