"""A verified pair in `edges`, kept once, under the smaller id.

    key    smaller document id 16 │ larger document id 16
    value  version 1 │ resemblance 2 │ containment of the smaller in the larger 2 │ and the other way 2

Shares are written as 0..65535.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from state.errors import StateCorrupt
from state.model import ID_BYTES, Edge

VERSION = 1
_VALUE = struct.Struct(">BHHH")
_ROW = np.dtype([("version", "u1"), ("resemblance", ">u2"), ("containment", ">u2"), ("contained", ">u2")])
_ONE = 65535


def encode(edge: Edge) -> tuple[bytes, bytes]:
    """Key and value of a pair, the same whichever way round it is given."""
    if edge.b < edge.a:
        edge = Edge(edge.b, edge.a, edge.resemblance, edge.contained, edge.containment)
    figures = (edge.resemblance, edge.containment, edge.contained)
    return edge.a + edge.b, _VALUE.pack(VERSION, *[round(share * _ONE) for share in figures])


def encode_many(
    ids: Sequence[bytes],
    smaller: NDArray[np.int64],
    larger: NDArray[np.int64],
    resemblance: NDArray[np.float64],
    containment: NDArray[np.float64],
    contained: NDArray[np.float64],
) -> dict[bytes, bytes]:
    """Keys and values of many pairs, given as columns: pair i is of ids[smaller[i]] and ids[larger[i]]."""
    table = np.zeros(len(smaller), _ROW)
    table["version"] = VERSION
    for name, column in (("resemblance", resemblance), ("containment", containment), ("contained", contained)):
        table[name] = np.rint(column * _ONE)
    values, width = table.tobytes(), _VALUE.size
    pairs = zip(smaller.tolist(), larger.tolist(), strict=True)
    return {ids[a] + ids[b]: values[i * width : (i + 1) * width] for i, (a, b) in enumerate(pairs)}


def decode(key: bytes, value: bytes) -> Edge:
    """Unpack a pair."""
    if len(key) != 2 * ID_BYTES:
        raise StateCorrupt(f"an edge has a key of {2 * ID_BYTES} bytes, not {len(key)}")
    if len(value) != _VALUE.size or value[0] != VERSION:
        raise StateCorrupt("not an edge of version 1: cut short, or written by a newer lostfound")
    _, resemblance, containment, contained = _VALUE.unpack(value)
    return Edge(key[:ID_BYTES], key[ID_BYTES:], resemblance / _ONE, containment / _ONE, contained / _ONE)
