"""The scheme: the parameters that two sketches must share to be comparable.

A state records its scheme when it is created, and messages on Kafka name their scheme by its id. The id changes with
any field, so a state never mixes sketches of different schemes.
"""

from __future__ import annotations

from typing import Annotated

import mmh3
import msgspec
from msgspec import Meta

TOKENISER = 1  # incremented whenever a change splits the same text into different tokens


class Scheme(msgspec.Struct, frozen=True, kw_only=True):
    """How pages become sketches."""

    extractor: str = "resiliparse-body"
    tokeniser: int = TOKENISER
    shingle_words: Annotated[int, Meta(ge=1, le=16)] = 4  # tokens per shingle
    bands: Annotated[int, Meta(ge=1, le=64)] = 20
    rows: Annotated[int, Meta(ge=1, le=7)] = 5  # bins per band
    sample_max: Annotated[int, Meta(ge=16, le=1024)] = 64  # sampled shingles per document
    seed: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 274_034_445

    @property
    def bins(self) -> int:
        """The number of bins in a signature: one per row of every band."""
        return self.bands * self.rows

    @property
    def bucket_bytes(self) -> int:
        """The length of a bucket's key: one byte for the number of the band, and one byte per row of the band."""
        return 1 + self.rows

    @property
    def id(self) -> str:
        """Sixteen hex digits that change with any field. They do not reveal a private seed, which is hashed."""
        return mmh3.hash_bytes(msgspec.json.encode(self), 0)[:8].hex()
