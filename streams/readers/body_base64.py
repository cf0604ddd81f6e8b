"""Detect whether the `body` of a JSONL line is base64 or text: crawlers use the field for both.

A body is base64 if it is a single line, or lines of equal length as in MIME (the last may be shorter), contains only
base64 characters with correct padding, and meets one of these conditions:

- the decoded bytes contain an HTML tag
- the decoded bytes are UTF-8 without control characters, most of it letters and spaces, and the body does not look
  like a word: it contains digits, `+`, `/`, `=`, or an uppercase letter after a lowercase one
- the body has at least 64 characters, including uppercase letters, lowercase letters and digits, as in an encoded
  image

Everything else is text: HTML contains `<` and spaces, and words such as `test` decode to meaningless bytes. A body
that meets the last condition but has wrong padding is damaged base64.
"""

from __future__ import annotations

import binascii
import re

_ALPHABET = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_OBVIOUS_CHARS_MIN = 64  # minimum length of a body that is recognised as base64 by its characters alone
_LINE_CHARS_MIN = 60  # MIME writes 76 characters per line, PEM 64
_HEAD_BYTES = 64 << 10  # the part of a decoded body that is searched for tags and words
_TAG = re.compile(rb"<(?:!doctype|!--|\?xml|/?[a-z][a-z0-9-]{0,20})[\s/>]", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]?[a-z]*|[A-Z]*")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_LETTERS_AND_SPACES_SHARE_MIN = 0.75  # in decoded text


def decode_if_base64(body: str) -> bytes | None:
    """Return the decoded bytes of a body, or None if the body is text. Raise ValueError if it is damaged base64."""
    joined = _join_lines(body)
    if joined is None or not _ALPHABET.fullmatch(joined):
        return None
    is_obviously_base64 = len(joined) >= _OBVIOUS_CHARS_MIN and all(
        re.search(pattern, joined) for pattern in ("[A-Z]", "[a-z]", "[0-9]")
    )
    try:
        decoded = binascii.a2b_base64(joined, strict_mode=True)
    except ValueError:
        if is_obviously_base64:
            raise
        return None
    return decoded if is_obviously_base64 or _contains_tag(decoded) or _is_text(joined, decoded) else None


def decode_declared_base64(body: str) -> bytes:
    """Return the decoded bytes of a body that is declared as base64. Raise ValueError if it is not base64."""
    return binascii.a2b_base64(b"".join(body.encode("ascii").split()), strict_mode=True)


def _join_lines(body: str) -> str | None:
    """Return a body without line breaks, or None if its lines do not have the lengths of base64 lines."""
    first, *others = body.split(maxsplit=1) or [""]
    if not others:
        return first
    if len(first) < _LINE_CHARS_MIN or not _ALPHABET.fullmatch(first):  # most text bodies are rejected here
        return None
    lines = body.split()
    has_equal_lines = len(lines[-1]) <= len(first) and all(len(line) == len(first) for line in lines[:-1])
    return "".join(lines) if has_equal_lines else None


def _contains_tag(decoded: bytes) -> bool:
    """Return whether the decoded bytes contain an HTML tag, in UTF-16 or a charset that extends ASCII."""
    head = decoded[:_HEAD_BYTES]
    return _TAG.search(head) is not None or (b"\0" in head and _TAG.search(head.replace(b"\0", b"")) is not None)


def _is_text(encoded: str, decoded: bytes) -> bool:
    """Return whether the decoded bytes are UTF-8 text, and the encoded text does not look like a word."""
    try:
        text = decoded.decode()
    except UnicodeDecodeError:
        return False
    if _WORD.fullmatch(encoded) or _CONTROL.search(text):
        return False
    head = text[:_HEAD_BYTES]
    return sum(map(str.isalpha, head)) + head.count(" ") >= _LETTERS_AND_SPACES_SHARE_MIN * len(head)
