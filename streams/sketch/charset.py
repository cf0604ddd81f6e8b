"""Decode the bytes of a page: by byte order mark, as UTF-8, by the declared charset, or by a guess."""

from __future__ import annotations

import re

_META_BYTES = 1024  # only this part of a page is searched for a charset
_GUESS_BYTES, _GUESS_NON_ASCII_MIN = 1 << 16, 16  # bytes that a guess reads; non-ASCII bytes that it needs
_ASCII_BYTES = bytes(range(128))
_UTF8_LOOKALIKES = frozenset(["iso2022_jp", "utf-16-le", "utf-16-be"])  # their text may also be valid UTF-8
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_META_CHARSET = re.compile(rb"<meta[^<>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)


def decode(body: bytes, charset: str = "") -> str:
    """Decode a body by its byte order mark, else as UTF-8, else by the declared charset, else by a guess.

    Valid UTF-8 is decoded as UTF-8 even if declared otherwise: declarations are often wrong, while text in other
    charsets is rarely valid UTF-8. The server's declaration takes precedence over the page's. Invalid bytes are
    replaced.
    """
    from resiliparse.parse.encoding import detect_encoding

    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(encoding, "replace")
    declared = _html5_name(charset) or _html5_name(_meta_charset(body))
    if declared not in _UTF8_LOOKALIKES:
        try:
            return body.decode()
        except UnicodeDecodeError:
            pass
    if declared not in {"", "utf-8"}:
        return body.decode(declared, "replace")
    # A guess from too few non-ASCII bytes is unreliable, so use windows-1252, as browsers do.
    can_guess = len(body[:_GUESS_BYTES].translate(None, _ASCII_BYTES)) >= _GUESS_NON_ASCII_MIN
    guess = _html5_name(detect_encoding(body, max_len=_GUESS_BYTES) or "") if can_guess else ""
    return body.decode(guess or "cp1252", "replace")


def _html5_name(charset: str) -> str:
    """Return the charset that the HTML standard uses for this name, or an empty string if the name is unknown."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    name = map_encoding_to_html5(charset.strip().strip("\"'"), fallback_utf8=False) if charset else None
    return name or ""


def _meta_charset(body: bytes) -> str:
    match = _META_CHARSET.search(body, 0, _META_BYTES)
    charset = match[1].decode("ascii", "replace") if match else ""
    # If the declaration is readable as ASCII, the page is not UTF-16; the standard prescribes UTF-8.
    return "utf-8" if _html5_name(charset) in {"utf-16-le", "utf-16-be"} else charset
