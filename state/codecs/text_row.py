"""A document's title and text in `texts`.

    value  version 1 │ time 8 │ crc 4 │ source 8 │ dictionary 1 │ bytes of title 2 │ title │ zstd frame of the text

The title stands before the frame: who lists documents unfolds none of their texts. Versions before are still read:
version 3 has neither time nor source, 2 and 1 have a frame of "title, 0A, text" right behind the dictionary, and
version 1 has no crc.

Several pages may hold one document with other titles, capitals and signs. Of their values the smallest is kept. That
is the one of the earliest capture; of several in one instant, the one with the smallest CRC-32 of "title, 0A, text":
the same one in whatever order pages come, and whatever dictionary their frames were made with. So what a later sweep
writes otherwise changes nothing, and goes with it when it is cancelled.

The source is the raw fingerprint of that capture. Once no capture of the document has it, what is kept is not what
any page that is left said; of a version without a source that cannot be told. A value that is of no page in
particular has the last of all times, and gives way to any.

The dictionary number says which trained dictionary the frame was made with; 0 is none. Dictionaries are in `meta`
under "dictionary" ‖ number and are never changed, so a frame can always be read.
"""

from __future__ import annotations

import struct
import zlib

import zstandard

from state.errors import StateCorrupt

VERSION = 4
LEVEL = 1  # of zstd; 3 takes 6 to 13 % fewer bytes (synthetic pages, three sites' manuals) and half as long again
TITLE_BYTES_MAX = 0xFFFF
NEVER = (1 << 64) - 1
NOBODY = bytes(8)
_HEAD = struct.Struct(">BQI8sBH")
_TITLE_AT = {3: 8, VERSION: _HEAD.size}
_NUMBER_AT = {1: 1, 2: 5, 3: 5, VERSION: 21}  # where the dictionary's number is
_SOURCE = slice(13, 21)
TEXT_BYTES_MAX = 64 << 20  # what a frame may unfold to


class TextCodec:
    """Compresses with the newest dictionary and reads with any; one instance a thread."""

    def __init__(self, dictionaries: dict[int, bytes]) -> None:
        self.newest = max(dictionaries, default=0)
        self._dictionaries = {n: zstandard.ZstdCompressionDict(data) for n, data in dictionaries.items()}
        held = self._dictionaries.get(self.newest)
        if held:
            held.precompute_compress(level=LEVEL)
        self._writer = zstandard.ZstdCompressor(level=LEVEL, dict_data=held, write_content_size=True)
        self._readers: dict[int, zstandard.ZstdDecompressor] = {}

    def encode(self, title: str, text: str, time: int = NEVER, source: bytes = NOBODY) -> bytes:
        """Pack title and text, and the time and raw fingerprint of the capture that they are of.

        Surrogates that no UTF-8 can hold become question marks.
        """
        named = title.replace("\n", " ").encode("utf-8", "replace")[:TITLE_BYTES_MAX]
        data = text.encode("utf-8", "replace")
        crc = zlib.crc32(data, zlib.crc32(named + b"\n"))
        head = _HEAD.pack(VERSION, time, crc, source, self.newest, len(named))
        return head + named + self._writer.compress(data)

    def title(self, value: bytes) -> str:
        """The title alone; nothing is unfolded for it."""
        at = _TITLE_AT.get(value[0]) if value else None
        if at is None:
            return self.decode(value)[0]
        return value[at : _end_of_title(value, at)].decode("utf-8", "replace")

    def decode(self, value: bytes) -> tuple[str, str]:
        """Unpack title and text."""
        at = _NUMBER_AT.get(value[0]) if value else None
        if at is None or len(value) <= at:
            raise StateCorrupt(f"not a text of version {VERSION}: cut short, or written by a newer lostfound")
        number = value[at]
        if title_at := _TITLE_AT.get(value[0]):
            return self.title(value), self._unfold(number, value[_end_of_title(value, title_at) :])
        title, _, text = self._unfold(number, value[at + 1 :]).partition("\n")
        return title, text

    def _unfold(self, number: int, frame: bytes) -> str:
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
        return data.decode("utf-8", "replace")


def source(value: bytes) -> bytes | None:
    """The raw fingerprint of the capture that a value is of; None when that is not known, or it is of none."""
    held = value[_SOURCE] if value[:1] == bytes((VERSION,)) else NOBODY
    return None if held == NOBODY else held


def seen_at(value: bytes, time: int) -> bytes:
    """The same value, of a capture of that time with the same raw bytes; of a version that has a source."""
    return value[:1] + time.to_bytes(8, "big") + value[9:]


def _end_of_title(value: bytes, at: int) -> int:
    end = at + int.from_bytes(value[at - 2 : at], "big")
    if len(value) < end:
        raise StateCorrupt(f"a kept text of {len(value)} bytes has a title up to {end}: cut short")
    return end


def train(texts: list[str], size_bytes: int = 64 << 10) -> bytes | None:
    """A dictionary for texts like these, or None when there is too little to learn from."""
    samples: list[bytes | bytearray | memoryview[int]]
    samples = [text[: 16 << 10].encode("utf-8", "replace") for text in texts if text]
    if len(samples) < 64 or sum(map(len, samples)) < 8 * size_bytes:
        return None
    try:
        # With segments of this length it takes a fifth of the time that a search for the best one does, and texts
        # take a hundredth more at most (synthetic pages 1.0 %, a manual none).
        return bytes(zstandard.train_dictionary(size_bytes, samples, k=1024, d=8).as_bytes())
    except zstandard.ZstdError:
        return None  # texts too much alike: nothing to gain from a dictionary either
