"""Build Arrow arrays of strings and bytes, without copying the bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_ASCII_MAX = 127


def bytes_array(ends: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.Array:
    """Return an array of binary values. `ends` contains 0, and then the end of each value in `data`."""
    return _array(pa.binary(), ends, data, None)


def string_array(
    ends: NDArray[np.int64], data: NDArray[np.uint8], *, is_null: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return an array of strings, like `bytes_array`. Replace invalid UTF-8, because readers of Parquet refuse it."""
    array = _array(pa.string(), ends, data, is_null)
    if not len(data) or data[: ends[-1]].max(initial=0) <= _ASCII_MAX:
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        values = array.cast(pa.binary()).to_pylist()
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values]
        return pa.array(texts, pa.string())
    return array


def _array(
    type_: pa.DataType, ends: NDArray[np.int64], data: NDArray[np.uint8], is_null: NDArray[np.bool_] | None
) -> pa.Array:
    validity: Any = None
    if is_null is not None and is_null.any():
        validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.Array.from_buffers(type_, len(ends) - 1, [validity, offsets, pa.py_buffer(data)])
