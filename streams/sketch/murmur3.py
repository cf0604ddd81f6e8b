"""Compute MurmurHash3 (x64, 128 bits, seed 0), compiled by numba, for use in other compiled functions."""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

from numba import uint64

from streams.sketch.kernel import jit, load_8_bytes, mix

_FIRST_FACTOR, _SECOND_FACTOR = 0x87C37B91114253D5, 0x4CF5AD432745937F


@jit()
def first_64_bits(data, start, end):
    """Return the first half of the hash of `data[start:end]` as an unsigned integer; `data` contains bytes."""
    first, second = uint64(0), uint64(0)
    i = start
    while end - i >= 16:
        first ^= _mix_first(load_8_bytes(data, uint64(i)))
        first = (_rotate(first, 27) + second) * uint64(5) + uint64(0x52DCE729)
        second ^= _mix_second(load_8_bytes(data, uint64(i + 8)))
        second = (_rotate(second, 31) + first) * uint64(5) + uint64(0x38495AB5)
        i += 16
    first ^= _mix_first(_load(data, i, min(i + 8, end))) ^ uint64(end - start)
    second ^= _mix_second(_load(data, i + 8, end)) ^ uint64(end - start)
    first += second
    second += first
    return mix(first) + mix(second)


@jit(inline="always")
def _load(data, start, end):
    """Return fewer than nine bytes as a little-endian integer."""
    value = uint64(0)
    for i in range(start, end):
        value |= uint64(data[i]) << uint64(8 * (i - start))
    return value


@jit(inline="always")
def _mix_first(block):
    return _rotate(block * uint64(_FIRST_FACTOR), 31) * uint64(_SECOND_FACTOR)


@jit(inline="always")
def _mix_second(block):
    return _rotate(block * uint64(_SECOND_FACTOR), 33) * uint64(_FIRST_FACTOR)


@jit(inline="always")
def _rotate(value, bits):
    return value << uint64(bits) | value >> uint64(64 - bits)
