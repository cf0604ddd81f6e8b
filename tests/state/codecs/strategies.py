"""Strategies and checks that the codec tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

ids = st.binary(min_size=16, max_size=16)
times = st.integers(0, 253_402_300_799_999)
shares = st.floats(0, 1)
strings = st.text(st.characters(exclude_categories=()), max_size=60)
"""Anything that a crawler may write, including lone surrogates."""
keys = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=40).map(str.encode)


def assert_refuses_damage(decode: Callable[[bytes], object], value: bytes) -> None:
    """Check that a value that is cut anywhere, or has another version, raises ValueError."""
    for end in range(len(value)):
        with pytest.raises(ValueError, match=r"truncated|corrupt|version|decompressed|not UTF-8|has"):
            decode(value[:end])
    with pytest.raises(ValueError, match="version 1"):
        decode(bytes((value[0] + 1,)) + value[1:])
