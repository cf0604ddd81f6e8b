"""What the state keeps, as plain values: between the codecs below and everything above."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

PREFIX_BYTES = 5  # of a document id, in postings: 2**40 keeps clashes rare and verifying sorts them out
ID_BYTES = 16


class Sketch(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is kept of a document's shingles.

    `signature` is uint8[bins], the low 8 bits of each bin's minimum (one-permutation hashing, densified).
    `sample` is uint32[<= sample_max], ascending: the shingle values v with v mod 2**exponent == 0. With
    `exponent` 0 it holds every shingle and the document is exact.
    """

    document: bytes  # 16 bytes: mmh3 128 of the canonical tokens
    signature: NDArray[np.uint8]
    sample: NDArray[np.uint32]
    exponent: int
    shingles: int  # distinct shingles
    tokens: int


class DocumentRow(msgspec.Struct, frozen=True, eq=False):
    """A stored document: its sketch and when it was first seen. Title and text are kept apart, in `texts`."""

    sketch: Sketch
    first_seen: int  # ms since the epoch, UTC, of the capture that brought it


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one page: who, when, in which sweep, what came back."""

    key: bytes  # url key, SURT order
    url: str  # as the crawler wrote it
    sweep: int
    time: int  # ms since the epoch, UTC
    status: int  # HTTP status
    document: bytes | None  # None: a redirect, an error without text, a page that was rejected later
    raw: bytes  # 8 bytes: fingerprint of the raw bytes, b"" when there were none
    redirect: str | None = None
    extractor: int = 0  # Extractor
    tie: int = 0  # tells apart captures of one URL within one instant; 0 until it is kept


class Extractor(IntEnum):
    """How the text of a capture was won."""

    NONE = 0
    TEXT = 1  # the crawler handed text
    HTML = 2
    HTML_FALLBACK = 3  # main content was empty, all text was taken


class SweepState(IntEnum):
    """The life of a sweep: open -> committed, or open/committed -> cancelling -> cancelled."""

    OPEN = 1
    COMMITTED = 2
    CANCELLING = 3
    CANCELLED = 4


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """One named pass of a crawl; `number` orders sweeps."""

    number: int
    name: str
    state: SweepState
    opened: int  # ms
    committed: int = 0  # ms, 0 while open
    captures: int = 0


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A verified pair: `containment` is of a in b, `contained` of b in a."""

    a: bytes
    b: bytes
    resemblance: float
    containment: float
    contained: float
