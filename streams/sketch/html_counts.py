"""Count the tags and attributes that determine the work of an HTML parser, compiled by numba."""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

import numpy as np
from numba import uint8, uint64

from streams.sketch.kernel import jit

_FORMATTING = b"b i s u tt em big font code nobr small strike strong".split()
_FORMATTING_NAMES = np.array([int.from_bytes(name, "big") for name in _FORMATTING], dtype=np.uint64)
_HTML, _BODY, _UL, _OL, _META = (
    np.uint64(int.from_bytes(name, "big")) for name in (b"html", b"body", b"ul", b"ol", b"meta")
)


def count_markup(data: bytes) -> tuple[int, int, int, int, int, int]:
    """Return upper bounds on the counts that determine a parser's work, for `streams.sketch.html_guard`.

    The counts are: tags, formatting elements open at once, comparisons of attributes, <html> and <body> tags, lists,
    and the bytes up to the end of the last `<meta` (0 without a `<meta`).
    """
    counts = _count(np.frombuffer(data + b"<", dtype=np.uint8), _FORMATTING_NAMES)
    tags, formatting, attribute_comparisons, roots, lists, meta_end = (int(count) for count in counts)
    return tags, formatting, attribute_comparisons, roots, lists, meta_end


@jit()
def _count(data, formatting_names):
    tags = formatting = attribute_comparisons = roots = lists = meta_end = uint64(0)
    attributes, after_separator = uint64(0), False
    bare_counts = np.zeros(formatting_names.size, dtype=np.uint8)  # of formatting tags without attributes
    for n in range(data.size - 1):
        i = uint64(n)
        byte = data[i]
        if byte != uint8(0x3C):  # not `<`
            # White space, a slash or a quote can separate two attributes.
            is_separator = byte <= uint8(0x20) or byte == uint8(0x2F) or byte == uint8(0x22) or byte == uint8(0x27)
            attributes += uint64(after_separator and not is_separator)
            after_separator = is_separator
            continue
        attribute_comparisons += attributes * attributes
        attributes, after_separator = uint64(0), False
        tags += uint64(data[i + uint64(1)] == uint8(0x2F) or (data[i + uint64(1)] | uint8(0x20)) - uint8(0x61) < 26)
        name, end = uint64(0), i + uint64(1)  # the name in lower case, one letter per byte
        while (data[end] | uint8(0x20)) - uint8(0x61) < 26 and end < i + uint64(8):
            name = name << uint64(8) | uint64(data[end] | uint8(0x20))
            end += uint64(1)
        roots += uint64(name in (_HTML, _BODY))
        lists += uint64(name in (_UL, _OL))
        meta_end = end if name == _META else meta_end
        is_whole_name = not (uint8(0x61) <= data[end] | uint8(0x20) <= uint8(0x7A))
        for k in range(formatting_names.size):
            # The standard reopens at most three elements with the same name and no attributes.
            if is_whole_name and formatting_names[k] == name and (data[end] != uint8(0x3E) or bare_counts[k] < 3):
                formatting += uint64(1)
                bare_counts[k] += data[end] == uint8(0x3E)
    return tags, formatting, attribute_comparisons + attributes * attributes, roots, lists, meta_end
