"""Parse links of the usual form, compiled by numba: attributes, the target's URL key, and the anchor text.

The result is a record for each link (`link_records`). A link that needs more of the standards than this module knows,
such as character references, non-ASCII hosts or percent-encoding, is left to `links`, which parses it in Python. Both
give the same record for every link that this module parses.
"""

# Annotations cannot express the numba types of compiled functions.
# mypy: allow-untyped-defs
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import string

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from state.model import LinkKind
from streams.sketch.kernel import jit
from streams.sketch.link_records import (
    ANCHOR_START,
    BASE,
    END,
    FLAGS,
    HTTPS,
    IN_NAVIGATION,
    KIND_SHIFT,
    LINK,
    NAVIGATION,
    NO_LINK,
    NOFOLLOW,
    ODD,
    START,
    TARGET_END,
    A,
)  # fmt: skip
from streams.sketch.link_scanner import TEXT_BYTES_MAX, packed

_LT, _GT, _AMPERSAND, _HASH, _SLASH, _QUESTION, _EQUALS, _PERCENT, _DOT, _COLON, _CLOSE, _SEMICOLON = b"<>&#/?=%.:);"
_DOUBLE_QUOTE, _SINGLE_QUOTE, _SPACE_BYTE, _ZERO = b"\"' 0"
_SPACE, _NAME, _UNQUOTED, _URL, _HOST, _SCHEME, _WORD = (1 << bit for bit in range(7))  # classes of bytes
_LETTERS_DIGITS = string.ascii_letters + string.digits


def _byte_classes() -> NDArray[np.uint8]:
    members = {
        _SPACE: " \t\n\f\r",
        _NAME: _LETTERS_DIGITS + ":_.@-",
        _UNQUOTED: _LETTERS_DIGITS + string.punctuation.translate(dict.fromkeys(map(ord, "\"'<=>`"))),
        _URL: _LETTERS_DIGITS + "-._~!$()*+,;=:@%/",  # unchanged by percent-encoding, in the path and in the query
        _HOST: _LETTERS_DIGITS + "-",
        _SCHEME: _LETTERS_DIGITS + "+-.",
        _WORD: _LETTERS_DIGITS + "_",
    }
    classes = np.zeros(256, dtype=np.uint8)
    for flag, characters in members.items():
        classes[list(characters.encode())] |= flag
    return classes


_CLASSES = _byte_classes()
_HREF, _REL, _HREFLANG, _HTTP, _HTTPS = packed("href", "rel", "hreflang", "http", "https")
_REFERENCES = packed("amp", "lt", "gt", "quot", "nbsp")
_REFERENCED_BYTES = np.frombuffer(b'&<>" ', dtype=np.uint8)  # a no-break space is a space of an anchor text
_NOFOLLOW_END, _CANONICAL_END, _ALTERNATE_END = packed("nofollow", "anonical", "lternate")  # the last eight letters
_IS_NOFOLLOW, _IS_CANONICAL, _IS_ALTERNATE = 1, 2, 4
_CANONICAL_FLAGS = int(LinkKind.CANONICAL) << KIND_SHIFT
_FURTHER_BYTES = 8  # at most: `)/` behind a host, a NUL, and the flags
_HEX_DIGITS = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)
_INLINE_NAMES = packed(
    *"a abbr b bdi bdo big cite code em font i kbd mark q s samp small span strong sub sup tt u var wbr".split()  # noqa: SIM905
)


@jit()
def parse(data, tags, first, folder, site, base, limits, output, used, rows, odd_numbers):
    """Parse tags, which are rows of `link_scanner`, from number `first` to the next <base> or the last tag.

    Relative references are appended to `folder` or `site`, two URL keys; if the keys are empty, these references are
    left to Python. `base` contains the offset behind the first `/` of the keys' path, the length of the folder's URL,
    and whether its scheme is https. `limits` contains the maximum bytes of a URL and of an anchor, and whether to
    keep anchors.

    Append records to `output`, of which `used` bytes are in use, and set their `rows`. Write the numbers of unusual
    tags to `odd_numbers`. Return the number of the tag at which the work ended, the count of unusual tags, and the
    number of bytes in use.
    """
    values = np.empty(6, dtype=np.int64)
    odd_count, number = 0, first
    while number < tags.shape[0]:
        element = tags[number, 0] & ~IN_NAVIGATION
        if element == BASE:
            rows[number, START] = NO_LINK
            break
        rows[number, START] = ODD
        name_end = tags[number, 1] + (2 if element == A else 5)
        if _read_attributes(data, name_end, tags[number, 2] - 1, values):
            used = _parse_link(data, tags, number, values, folder, site, base, limits, output, used, rows)
        if rows[number, START] == ODD:
            odd_numbers[odd_count] = number
            odd_count += 1
        number += 1
    return number, odd_count, used


@jit()
def _read_attributes(data, start, end, values):
    """Set `values` to the bounds of the values of `href`, `rel` and `hreflang`, or to -1. `end` is that of the `>`.

    Return False if the tag contains anything but names and values in the usual form.
    """
    values[:] = -1
    i = start
    while True:
        while _CLASSES[data[i]] & _SPACE:
            i += 1
        if i >= end or (data[i] == _SLASH and i + 1 == end):
            return True
        name, name_start = uint64(0), i
        while _CLASSES[data[i]] & _NAME:
            name = name << uint64(8) | uint64(data[i] | 0x20)
            i += 1
        if i == name_start:
            return False
        has_value = data[i] == _EQUALS
        if has_value:
            value_start, value_end, i = _read_value(data, i + 1, end)
            k = 0 if name == _HREF else 2 if name == _REL else 4 if name == _HREFLANG else -1
            if k >= 0 and values[k] < 0:  # of attributes with the same name, the first one counts
                values[k], values[k + 1] = value_start, value_end
        if i < 0 or not (i >= end or _CLASSES[data[i]] & _SPACE or (has_value and data[i] == _SLASH)):
            return False


@jit()
def _read_value(data, start, end):
    """Return the bounds of an attribute's value, and the offset behind it; or ODD."""
    quote, i = data[start], start
    if quote in (_DOUBLE_QUOTE, _SINGLE_QUOTE):
        i += 1
        while i < end and data[i] != quote:
            i += 1
        return start + 1, i, i + 1 if i < end else ODD
    while _CLASSES[data[i]] & _UNQUOTED:
        i += 1
    return start, i, i if i > start else ODD


@jit()
def _read_relations(data, start, end):
    """Return which of the relations that matter are in a `rel`, or ODD."""
    relations, i = 0, start
    while i < end:
        while i < end and _CLASSES[data[i]] & _SPACE:
            i += 1
        word, word_start = uint64(0), i
        while i < end and _CLASSES[data[i]] & _NAME:
            word = word << uint64(8) | uint64(data[i] | 0x20)
            i += 1
        if i < end and not _CLASSES[data[i]] & _SPACE:
            return ODD
        if i - word_start == 8 and word == _NOFOLLOW_END:
            relations |= _IS_NOFOLLOW
        elif i - word_start == 9 and data[word_start] | 0x20 == 0x63 and word == _CANONICAL_END:
            relations |= _IS_CANONICAL
        elif i - word_start == 9 and data[word_start] | 0x20 == 0x61 and word == _ALTERNATE_END:
            relations |= _IS_ALTERNATE
    return relations


@jit()
def _parse_link(data, tags, number, values, folder, site, base, limits, output, used, rows):
    """Append the record of a link, and set its row. Return the number of bytes in use."""
    element, tag_end, end = tags[number, 0], tags[number, 2], tags[number, 3]
    start, stop = values[0], values[1]
    while start < stop and _CLASSES[data[start]] & _SPACE:
        start += 1
    while start < stop and _CLASSES[data[stop - 1]] & _SPACE:
        stop -= 1
    relations = _read_relations(data, values[2], values[3])
    is_anchor = element & ~IN_NAVIGATION != LINK
    is_page = is_anchor or relations & _IS_CANONICAL or (relations & _IS_ALTERNATE and values[4] >= 0)
    if start >= stop or data[start] == _HASH or (relations >= 0 and not is_page):
        rows[number, START] = NO_LINK
        return used
    if relations < 0 or not (is_anchor or relations & _IS_CANONICAL) or end - tag_end >= TEXT_BYTES_MAX:
        return used
    target_end, is_https = _write_target(data, start, stop, folder, site, base, limits, output, used, end - tag_end)
    if target_end < 0:
        rows[number, START] = target_end
        return used
    flags = HTTPS if is_https else 0
    if is_anchor:
        flags |= NOFOLLOW if relations & _IS_NOFOLLOW else 0
        flags |= NAVIGATION if element & IN_NAVIGATION else 0
    else:
        flags |= _CANONICAL_FLAGS
    anchor_start = _write_flags(flags, output, target_end)
    anchor_end = anchor_start
    if is_anchor:
        _, anchor_bytes_max, keep_anchors = limits
        anchor_end = _write_anchor(data, tag_end, end, output, anchor_start)
        if anchor_end <= anchor_start or anchor_end - anchor_start > anchor_bytes_max:
            return used  # a text may be an image's alternative text
        anchor_end = anchor_end if keep_anchors else anchor_start
    rows[number, START], rows[number, TARGET_END], rows[number, ANCHOR_START] = used, target_end, anchor_start
    rows[number, END], rows[number, FLAGS] = anchor_end, flags
    return anchor_end


@jit()
def _write_flags(flags, output, position):
    """Write a NUL and the flags in decimal digits. Return the offset behind them."""
    output[position] = 0
    if flags >= 10:
        position += 1
        output[position] = _ZERO + flags // 10
    output[position + 1] = _ZERO + flags % 10
    return position + 2


@jit()
def _write_target(data, start, end, folder, site, base, limits, output, position, other_bytes):
    """Write the key of a target. Return the offset behind it, or ODD or NO_LINK, and whether its scheme is https.

    There must be space for further `other_bytes`.
    """
    root, base_bytes, base_is_https = base
    key_start, url_bytes, url_bytes_max = position, base_bytes + 1 + end - start, limits[0]
    bytes_max = folder.size + 3 * url_bytes + other_bytes + _FURTHER_BYTES
    if url_bytes > url_bytes_max or position + bytes_max > output.size or _has_wide_space_around(data, start, end):
        return ODD, False
    path_start, is_https = _read_scheme(data, start, end, folder.size > 0, base_is_https)
    if path_start > start:
        path_start, position = _write_host(data, path_start, end, output, position)
        root = position - key_start
    elif path_start == start:
        path_start, position = _write_base(data, start, end, folder, site, output, position)
        is_https = base_is_https
    if path_start >= 0:
        position = _write_path(data, path_start, end, output, position, key_start + root)
    if path_start < 0 or position < 0 or position - key_start > url_bytes_max:
        return path_start if path_start < 0 else ODD, False
    return position, is_https


@jit()
def _has_wide_space_around(data, start, end):
    """Return whether a reference may begin or end with a space outside ASCII."""
    if data[start] >= 0x80:
        return True
    return data[end - 1] >= 0x80 and (
        end - start < 3 or _is_wide_space(data, end - 3) or _is_wide_space(data, end - 2)
    )


@jit()
def _read_scheme(data, start, end, has_base, base_is_https):
    """Return the offset of the host, and whether the scheme is https.

    Without a host, the offset is `start`. If no page has such a scheme, the offset is NO_LINK. If the reference is
    unusual, the offset is ODD.
    """
    if data[start] == _SLASH and start + 2 < end and data[start + 1] == _SLASH:
        return start + 2 if has_base else ODD, base_is_https
    name, i = uint64(0), start
    while i < end and _CLASSES[data[i]] & _SCHEME:
        name = name << uint64(8) | uint64(data[i] | 0x20)
        i += 1
    if i < end and data[i] >= 0x80:
        return ODD, False
    if i == end or data[i] != _COLON:
        return start, False
    if name in (_HTTP, _HTTPS):
        has_host = i + 3 < end and data[i + 1] == _SLASH and data[i + 2] == _SLASH
        return i + 3 if has_host else ODD, name == _HTTPS
    return NO_LINK if 0x61 <= data[start] | 0x20 <= 0x7A else ODD, False  # such as `mailto:`


@jit()
def _write_host(data, start, end, output, position):
    """Write the key of a host of letters, digits and hyphens.

    Return the offset of the path, and that behind the key in `output`; both are ODD for other hosts.
    """
    host_end = start
    while host_end < end and (_CLASSES[data[host_end]] & _HOST or data[host_end] == _DOT):
        host_end += 1
    if host_end < end and data[host_end] != _SLASH and data[host_end] != _QUESTION and data[host_end] != _HASH:
        return ODD, ODD
    label_end = host_end
    while True:
        label_start = label_end
        while label_start > start and data[label_start - 1] != _DOT:
            label_start -= 1
        first = data[label_start] | 0x20
        if label_start == label_end or (label_end == host_end and not 0x61 <= first <= 0x7A):
            return ODD, ODD  # an empty label, or perhaps an IP address
        if label_end - label_start > 3 and data[label_start + 2] == 0x2D and data[label_start + 3] == 0x2D:
            return ODD, ODD  # perhaps Punycode, which may be invalid
        for k in range(label_start, label_end):
            output[position] = data[k] | 0x20 if data[k] >= 0x41 else data[k]
            position += 1
        if label_start == start:
            break
        output[position] = 0x2C
        position += 1
        label_end = label_start - 1
    output[position], output[position + 1] = _CLOSE, _SLASH
    return host_end + (1 if host_end < end and data[host_end] == _SLASH else 0), position + 2


@jit()
def _write_base(data, start, end, folder, site, output, position):
    """Write the key to which a relative reference is appended.

    Return the offset of the path, and that behind the key in `output`; both are ODD for other references.
    """
    is_rooted = data[start] == _SLASH
    key = site if is_rooted else folder
    is_double = is_rooted and start + 1 < end and data[start + 1] == _SLASH
    if is_double or data[start] == _QUESTION or key.size == 0:
        return ODD, ODD
    for k in range(key.size):
        output[position + k] = key[k]
    return start + is_rooted, position + key.size


@jit()
def _write_path(data, start, end, output, position, root):
    """Append a path and a query to a key that ends with `/`. Return the offset behind it, or ODD.

    Dot segments are removed; `root` is the offset behind the first `/` of the path.
    """
    segment, is_path = position, True
    i = start
    while i < end and data[i] != _HASH:
        byte = data[i]
        i += 1
        if byte >= 0x80:
            output[position], output[position + 1] = _PERCENT, _HEX_DIGITS[byte >> 4]
            position += 2
            byte = _HEX_DIGITS[byte & 15]
        elif byte == _AMPERSAND:
            i, referenced = _read_reference(data, i, end)
            if i < 0 or referenced != _AMPERSAND:
                return ODD
        elif byte == _QUESTION:
            if is_path:
                position, is_path = _end_segment(output, segment, position, root), False
        elif not _CLASSES[byte] & _URL or (byte == _PERCENT and data[i] == 0x32 and data[i + 1] | 0x20 == 0x65):
            return ODD  # `%2e` is a dot
        if byte == _SLASH and is_path:
            end_of_segment = _end_segment(output, segment, position, root)
            is_dots = end_of_segment != position
            position = segment = end_of_segment + (not is_dots)
            output[position - 1] = byte
            continue
        output[position] = byte
        position += 1
    return _end_segment(output, segment, position, root) if is_path else position


@jit()
def _read_reference(data, start, end):
    """Return the offset behind a character reference, whose `&` precedes `start`, and its byte, or ODD.

    An `&` before a space stands for itself.
    """
    if start == end or _CLASSES[data[start]] & _SPACE:
        return start, _AMPERSAND
    i = start
    if data[i] == _HASH:
        number, i = 0, i + 1
        while i < end and 0x30 <= data[i] <= 0x39 and number < 0x80:
            number, i = 10 * number + data[i] - 0x30, i + 1
        if i < end and data[i] == _SEMICOLON and 0x20 < number < 0x7F:
            return i + 1, number
        return ODD, 0
    name = uint64(0)
    while i < end and 0x61 <= data[i] <= 0x7A and i < start + 5:
        name, i = name << uint64(8) | uint64(data[i]), i + 1
    if i < end and data[i] == _SEMICOLON:
        for k in range(_REFERENCES.size):
            if name == _REFERENCES[k]:
                return i + 1, int(_REFERENCED_BYTES[k])
    return ODD, 0


@jit()
def _end_segment(output, segment, position, root):
    """Return where the key ends after a segment of its path: earlier than `position` for `.` and `..`."""
    length = position - segment
    if length == 1 and output[segment] == _DOT:
        return segment
    if length == 2 and output[segment] == _DOT and output[segment + 1] == _DOT:
        if segment > root:
            segment -= 1
            while output[segment - 1] != _SLASH:
                segment -= 1
        return segment
    return position


@jit()
def _write_anchor(data, start, end, output, position):
    """Write the text of an anchor, with single spaces and without tags. Return the offset behind it, or ODD."""
    anchor_start, is_space = position, False
    i = start
    while i < end:
        byte = data[i]
        i += 1
        if byte == _LT:
            i, is_inline = _skip_tag(data, i, end)
            if i < 0:
                return ODD
            is_space = is_space or not is_inline
            continue
        if byte == _AMPERSAND:
            i, byte = _read_reference(data, i, end)
            if i < 0:
                return ODD
        elif byte >= 0x80 and _is_wide_space(data, i - 1):
            return ODD
        if _CLASSES[byte] & _SPACE:
            is_space = True
            continue
        if byte < _SPACE_BYTE:
            return ODD
        if is_space and position > anchor_start:
            output[position] = _SPACE_BYTE
            position += 1
        is_space = False
        output[position] = byte
        position += 1
    return position


@jit()
def _is_wide_space(data, i):
    """Return whether a character outside ASCII is a space: U+0085, U+00A0, U+1680, U+2000 to U+205F or U+3000."""
    first, second, third = data[i], data[i + 1], data[i + 2]
    return (
        (first == 0xC2 and second in (0x85, 0xA0))
        or (first == 0xE1 and second == 0x9A and third == 0x80)
        or (first == 0xE2 and second == 0x80 and (third <= 0x8A or third in (0xA8, 0xA9, 0xAF)))
        or (first == 0xE2 and second == 0x81 and third == 0x9F)
        or (first == 0xE3 and second == 0x80 and third == 0x80)
    )


@jit()
def _skip_tag(data, start, end):
    """Return the offset behind a tag in an anchor, or ODD, and whether its element is part of the line."""
    i = start + 1 if data[start] == _SLASH else start
    name = uint64(0)
    while i < end and _CLASSES[data[i]] & _WORD:
        name = name << uint64(8) | uint64(data[i] | 0x20)
        i += 1
    if data[i] >= 0x80:
        return ODD, False
    is_inline = False
    for inline_name in _INLINE_NAMES:
        is_inline = is_inline or name == inline_name
    while i < end and data[i] != _GT:
        if data[i] == _LT:
            return ODD, False
        i += 1
    return (i + 1, is_inline) if i < end else (ODD, False)
