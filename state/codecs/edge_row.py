"""A verified pair in `edges`, stored once, under the smaller document id.

    key    smaller document id 16 B │ larger document id 16 B
    value  version 1 B │ resemblance 2 B │ containment 2 B │ contained 2 B

`containment` is the share of the smaller id's shingles that the other document contains, and `contained` is the share
of the larger id's shingles. All three figures are between 0 and 1, and are stored as integers from 0 to 65535.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from state.errors import StateCorrupt
from state.model import ID_BYTES, Edge

VERSION = 1
_VALUE = struct.Struct(">BHHH")
_VALUE_DTYPE = np.dtype([("version", "u1"), ("resemblance", ">u2"), ("containment", ">u2"), ("contained", ">u2")])
_SCALE = 65535


def encode(edge: Edge) -> tuple[bytes, bytes]:
    """Encode a pair as a key and a value. The documents of the pair may be in either order."""
    assert len(edge.a) == len(edge.b) == ID_BYTES
    assert edge.a != edge.b, "a document cannot be paired with itself"
    if edge.b < edge.a:
        return encode(
            msgspec.structs.replace(edge, a=edge.b, b=edge.a, containment=edge.contained, contained=edge.containment)
        )
    figures = (edge.resemblance, edge.containment, edge.contained)
    assert all(0 <= figure <= 1 for figure in figures)
    return edge.a + edge.b, _VALUE.pack(VERSION, *[round(figure * _SCALE) for figure in figures])


def encode_many(
    ids: Sequence[bytes],
    smaller_indexes: NDArray[np.int64],
    larger_indexes: NDArray[np.int64],
    resemblance: NDArray[np.float64],
    containment: NDArray[np.float64],
    contained: NDArray[np.float64],
) -> dict[bytes, bytes]:
    """Encode pairs that are given as columns.

    Pair i consists of `ids[smaller_indexes[i]]` and `ids[larger_indexes[i]]`, which must be the larger id of the two.
    """
    table = np.zeros(len(smaller_indexes), _VALUE_DTYPE)
    table["version"] = VERSION
    for name, column in (("resemblance", resemblance), ("containment", containment), ("contained", contained)):
        table[name] = np.rint(column * _SCALE)
    values, width = table.tobytes(), _VALUE.size
    pairs = zip(smaller_indexes.tolist(), larger_indexes.tolist(), strict=True)
    return {ids[a] + ids[b]: values[i * width : (i + 1) * width] for i, (a, b) in enumerate(pairs)}


def decode(key: bytes, value: bytes) -> Edge:
    """Decode a pair. Raise StateCorrupt if its key or value is invalid."""
    if len(key) != 2 * ID_BYTES:
        raise StateCorrupt(f"the key of an edge has {len(key)} bytes, expected {2 * ID_BYTES}")
    if len(value) != _VALUE.size or value[0] != VERSION:
        raise StateCorrupt(
            f"invalid edge (expected version {VERSION}): truncated, or from a newer version of lostfound"
        )
    _, resemblance, containment, contained = _VALUE.unpack(value)
    return Edge(
        a=key[:ID_BYTES],
        b=key[ID_BYTES:],
        resemblance=resemblance / _SCALE,
        containment=containment / _SCALE,
        contained=contained / _SCALE,
    )
