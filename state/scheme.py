"""The scheme: everything that two sketches must share to be compared.

It is written into a store when it is made and travels with every message of sketches. Its `id` changes with any
field, so state of one scheme never mixes with sketches of another.
"""

from __future__ import annotations

from typing import Annotated

import mmh3
import msgspec
from msgspec import Meta

TOKENISER = 1  # raised whenever the same text would give other tokens


class Scheme(msgspec.Struct, frozen=True):
    """How pages become sketches. Lengths are in tokens, counts are of bins, bands, rows and sampled shingles."""

    extractor: str = "resiliparse-body"
    tokeniser: int = TOKENISER
    shingle_words: Annotated[int, Meta(ge=1, le=16)] = 4
    bands: Annotated[int, Meta(ge=1, le=64)] = 20
    rows: Annotated[int, Meta(ge=1, le=7)] = 5
    sample_max: Annotated[int, Meta(ge=16, le=1024)] = 64
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 274_034_445

    @property
    def bins(self) -> int:
        """Bins of the signature: one for each row of each band."""
        return self.bands * self.rows

    @property
    def bucket_bytes(self) -> int:
        """Bytes of a bucket: the band's number, then its rows of the signature, one byte each."""
        return 1 + self.rows

    @property
    def id(self) -> str:
        """Sixteen hex digits that change with any field; a private seed is hashed, not shown."""
        return mmh3.hash_bytes(msgspec.json.encode(self), 0)[:8].hex()
