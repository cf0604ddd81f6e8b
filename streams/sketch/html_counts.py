"""Count the tags, attributes and other nodes that determine the work of an HTML parser, compiled by numba."""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN202

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint8, uint16, uint64

from streams.sketch.kernel import jit

_FORMATTING = b"b i s u tt em big font code nobr small strike strong".split()
_FORMATTING_NAMES = np.array([int.from_bytes(name, "big") for name in _FORMATTING], dtype=np.uint64)
_HTML, _BODY, _UL, _OL, _META, _OPTION = (
    np.uint64(int.from_bytes(name, "big")) for name in (b"html", b"body", b"ul", b"ol", b"meta", b"option")
)
# The table of distinct attribute names is never more than half full.
_NAMES_SLOTS, _NAMES_MAX = 1 << 16, 1 << 15
_FNV_OFFSET, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)

# The states of the standard's tokeniser inside a tag, one bit each. Which tags a parser reads depends on the elements
# around them, so every `<` before a letter may begin a tag. `_count` follows all possible tags at once, by the set of
# their states. A possible tag inside a script or an attribute soon has the same state as the others.
_TAG, _BEFORE_NAME, _NAME, _AFTER_NAME, _BEFORE_VALUE, _UNQUOTED, _DOUBLE_QUOTED, _SINGLE_QUOTED = (
    1 << bit for bit in range(8)
)
_SPACE, _SLASH, _END, _EQUALS, _DOUBLE, _SINGLE, _OTHER = range(7)  # classes of bytes
_NEXT_STATES = {  # by state: the next state per class of bytes; 0 is the end of the tag
    _TAG: (_BEFORE_NAME, _BEFORE_NAME, 0, _TAG, _TAG, _TAG, _TAG),
    _BEFORE_NAME: (_BEFORE_NAME, _BEFORE_NAME, 0, _NAME, _NAME, _NAME, _NAME),
    _NAME: (_AFTER_NAME, _BEFORE_NAME, 0, _BEFORE_VALUE, _NAME, _NAME, _NAME),
    _AFTER_NAME: (_AFTER_NAME, _BEFORE_NAME, 0, _BEFORE_VALUE, _NAME, _NAME, _NAME),
    _BEFORE_VALUE: (_BEFORE_VALUE, _UNQUOTED, 0, _UNQUOTED, _DOUBLE_QUOTED, _SINGLE_QUOTED, _UNQUOTED),
    _UNQUOTED: (_BEFORE_NAME, _UNQUOTED, 0, _UNQUOTED, _UNQUOTED, _UNQUOTED, _UNQUOTED),
    _DOUBLE_QUOTED: (*[_DOUBLE_QUOTED] * 4, _BEFORE_NAME, _DOUBLE_QUOTED, _DOUBLE_QUOTED),
    _SINGLE_QUOTED: (*[_SINGLE_QUOTED] * 5, _BEFORE_NAME, _SINGLE_QUOTED),
}


def _transitions() -> np.ndarray:
    """Return the next set of states, by class of the byte and set of states."""
    table = np.zeros((7, 256), dtype=np.uint16)
    for state, next_states in _NEXT_STATES.items():
        for byte_class, next_state in enumerate(next_states):
            for states in range(256):
                table[byte_class, states] |= next_state if states & state else 0
    return table


def _byte_classes() -> np.ndarray:
    classes = np.full(256, _OTHER, dtype=np.uint8)
    for byte_class, members in enumerate((b"\t\n\x0c\r ", b"/", b">", b"=", b'"', b"'")):
        classes[list(members)] = byte_class
    return classes


_TRANSITIONS, _BYTE_CLASSES = _transitions(), _byte_classes()


class MarkupCounts(NamedTuple):
    """Upper bounds on what a parser finds in a page."""

    tags: int
    other_markup: int  # every other `<`: comments, declarations, and pieces of text that contain it
    formatting: int  # formatting elements that are open at once
    formatting_attributes: int  # number of attributes of the formatting elements
    attributes: int
    attribute_names: int  # distinct ones; at most `_NAMES_MAX`
    attribute_comparisons: int  # each attribute is compared with the tag's other attributes
    roots: int  # <html> and <body> tags
    lists: int
    options: int
    meta_end: int  # bytes up to the end of the last `<meta`; 0 without a `<meta`


def count_markup(data: bytes) -> MarkupCounts:
    """Count the markup of a page in UTF-8, for `streams.sketch.html_guard`."""
    bytes_ = np.frombuffer(data + b"<\0", dtype=np.uint8)
    counts = _count(bytes_, _FORMATTING_NAMES, _BYTE_CLASSES, _TRANSITIONS)
    return MarkupCounts(*(int(count) for count in counts))


@jit()
def _insert(names, name_hash, has_space):
    """Insert a hash into an open-addressing table. Return 1 if it is new and the table has space, else 0."""
    slot = (name_hash >> uint64(32)) & uint64(_NAMES_SLOTS - 1)
    while names[slot] != uint64(0) and names[slot] != name_hash:
        slot = (slot + uint64(1)) & uint64(_NAMES_SLOTS - 1)
    if names[slot] != uint64(0) or not has_space:
        return uint64(0)
    names[slot] = name_hash
    return uint64(1)


@jit()
def _count(data, formatting_names, byte_classes, transitions):
    tags = other_markup = formatting = formatting_attributes = uint64(0)
    attributes = comparisons = roots = lists = options = meta_end = distinct = uint64(0)
    tag_attributes, is_formatting = uint64(0), False  # since the last `<`
    states, run_hash = uint16(0), _FNV_OFFSET
    bare_counts = np.zeros(formatting_names.size, dtype=np.uint8)  # of formatting tags without attributes
    names = np.zeros(_NAMES_SLOTS, dtype=np.uint64)
    for n in range(data.size - 2):
        i = uint64(n)
        byte = data[i]
        byte_class = byte_classes[byte]
        if states:
            if byte_class > _EQUALS:
                run_hash = (run_hash ^ uint64(byte)) * _FNV_PRIME
            else:
                if states & uint16(_NAME):
                    tag_attributes += uint64(1)
                    distinct += _insert(names, run_hash, distinct < uint64(_NAMES_MAX))
                run_hash = _FNV_OFFSET
            states = transitions[byte_class, states]
        if byte == uint8(0x2F) and n > 0 and data[i - uint64(1)] == uint8(0x3C):
            is_letter = uint8(0x61) <= data[i + uint64(1)] | uint8(0x20) <= uint8(0x7A)
            states |= uint16(_TAG) * uint16(is_letter)
        if byte != uint8(0x3C):  # not `<`
            continue
        if not states:  # otherwise, the `<` may belong to an attribute
            attributes += tag_attributes
            comparisons += tag_attributes * tag_attributes
            formatting_attributes += tag_attributes * uint64(is_formatting)
            tag_attributes, is_formatting = uint64(0), False
        is_end_tag = data[i + uint64(1)] == uint8(0x2F)
        first_letter = data[i + uint64(1) + uint64(is_end_tag)] | uint8(0x20)
        if not uint8(0x61) <= first_letter <= uint8(0x7A):
            other_markup += uint64(1)
            continue
        tags += uint64(1)
        states |= uint16(_TAG) * uint16(not is_end_tag)
        name, end = uint64(0), i + uint64(1)  # the name in lower case, one letter per byte
        while uint8(0x61) <= data[end] | uint8(0x20) <= uint8(0x7A) and end < i + uint64(8):
            name = name << uint64(8) | uint64(data[end] | uint8(0x20))
            end += uint64(1)
        roots += uint64(name in (_HTML, _BODY))
        lists += uint64(name in (_UL, _OL))
        options += uint64(name == _OPTION)
        meta_end = end if name == _META else meta_end
        is_whole_name = not (uint8(0x61) <= data[end] | uint8(0x20) <= uint8(0x7A))
        for k in range(formatting_names.size):
            # The standard reopens at most three elements with the same name and no attributes.
            if is_whole_name and formatting_names[k] == name and (data[end] != uint8(0x3E) or bare_counts[k] < 3):
                formatting += uint64(1)
                is_formatting = True
                bare_counts[k] += data[end] == uint8(0x3E)
    return (
        tags, other_markup, formatting, formatting_attributes + tag_attributes * uint64(is_formatting),
        attributes + tag_attributes, distinct,
        comparisons + tag_attributes * tag_attributes, roots, lists, options, meta_end,
    )  # fmt: skip
