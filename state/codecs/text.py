"""A document's title and text in `texts`.

    value  version 1 │ crc 4 │ dictionary 1 │ zstd frame of: title, 0A, text
           version 1 │ dictionary 1 │ zstd frame, which is version 1: still read

Several pages may hold one document with other titles, capitals and signs. Of their values the smallest is kept. That
is the one with the smallest CRC-32 of what is in the frame: the same one in whatever order pages come, and whatever
dictionary their frames were made with.

The dictionary number says which trained dictionary the frame was made with; 0 is none. Dictionaries are in `meta`
under "dictionary" ‖ number and are never changed, so a frame can always be read.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from state.errors import StateCorrupt

VERSION = 2
_HEAD = struct.Struct(">BIB")
_HEAD_OF_1 = 2
TEXT_BYTES_MAX = 64 << 20  # what a frame may unfold to


class TextCodec:
    """Compresses with the newest dictionary and reads with any; one instance a thread."""

    def __init__(self, dictionaries: dict[int, bytes], level: int = 3) -> None:
        self.newest = max(dictionaries, default=0)
        self._dictionaries = {n: zstandard.ZstdCompressionDict(data) for n, data in dictionaries.items()}
        held = self._dictionaries.get(self.newest)
        if held:
            held.precompute_compress(level=level)
        self._writer = zstandard.ZstdCompressor(level=level, dict_data=held, write_content_size=True)
        self._readers: dict[int, zstandard.ZstdDecompressor] = {}

    def encode(self, title: str, text: str) -> bytes:
        """Pack title and text; surrogates that no UTF-8 can hold become question marks."""
        data = f"{title.replace(chr(10), ' ')}\n{text}".encode("utf-8", "replace")
        head = _HEAD.pack(VERSION, zlib.crc32(data), self.newest)
        return head + self._writer.compress(data)

    def decode(self, value: bytes) -> tuple[str, str]:
        """Unpack title and text."""
        head = {1: _HEAD_OF_1, VERSION: _HEAD.size}.get(value[0]) if value else None
        if head is None or len(value) < head:
            raise StateCorrupt(f"not a text of version {VERSION}: cut short, or written by a newer lostfound")
        number, frame = value[head - 1], value[head:]
        if number and number not in self._dictionaries:
            raise StateCorrupt(f"a text needs dictionary {number}, which this state does not hold")
        reader = self._readers.get(number)
        if reader is None:
            reader = zstandard.ZstdDecompressor(dict_data=self._dictionaries.get(number))
            self._readers[number] = reader
        try:
            if zstandard.frame_content_size(frame) > TEXT_BYTES_MAX:  # is allocated before anything is unfolded
                raise StateCorrupt(f"a kept text says that it unfolds to more than {TEXT_BYTES_MAX} bytes")
            data = reader.decompress(frame, max_output_size=TEXT_BYTES_MAX)
        except zstandard.ZstdError as error:
            raise StateCorrupt(f"a kept text does not unfold: {error}") from error
        title, _, text = data.decode("utf-8", "replace").partition("\n")
        return title, text


def train(texts: list[str], size_bytes: int = 64 << 10) -> bytes | None:
    """A dictionary for texts like these, or None when there is too little to learn from."""
    samples: list[bytes | bytearray | memoryview[int]]
    samples = [text[: 16 << 10].encode("utf-8", "replace") for text in texts if text]
    if len(samples) < 64 or sum(map(len, samples)) < 8 * size_bytes:
        return None
    try:
        return bytes(zstandard.train_dictionary(size_bytes, samples).as_bytes())
    except zstandard.ZstdError:
        return None  # texts too much alike: nothing to gain from a dictionary either
