"""Escape crawled text, so that it cannot move a terminal's cursor or reverse the direction of text.

`replace_unencodable` keeps text that the encoding of a stream lacks from raising UnicodeEncodeError.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import TextIO

_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}  # NUL becomes ␀, ESC becomes ␛
_LINE_SEPARATORS = [0x2028, 0x2029]
_DIRECTION_MARKS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_INVISIBLE = [*range(0x80, 0xA0), *_LINE_SEPARATORS, *_DIRECTION_MARKS]
_UNSAFE = [*_CONTROL_PICTURES, *_INVISIBLE]
_TEXT_ESCAPES = str.maketrans(_CONTROL_PICTURES | dict.fromkeys(_INVISIBLE, "\ufffd"))
_URL_ESCAPES = {code: "".join(f"%{byte:02X}" for byte in chr(code).encode()) for code in _UNSAFE}
_CARET_FORMS = {chr(0x2400 + code): f"^{chr(code ^ 0x40)}" for code in range(0x20)} | {"␡": "^?"}
_ASCII_FORMS = {"→": "->", "±": "+-", "·": "-", "…": "...", "\ufffd": "?"} | _CARET_FORMS
_ENCODING_ERRORS = "lostfound.ascii"  # the name under which `_encode_as_ascii` is registered
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in _UNSAFE if code >= 0x20}  # JSON itself escapes codes below 0x20


def escape_text(text: str) -> str:
    """Replace control characters (C0, C1, DEL), line separators and direction marks with visible characters."""
    return text if text.isascii() and text.isprintable() else text.translate(_TEXT_ESCAPES)


def escape_url(url: str) -> str:
    """Percent-encode the unsafe characters of a URL. Valid URLs contain none and stay unchanged."""
    return url if url.isascii() and url.isprintable() else url.translate(_URL_ESCAPES)


def escape_json(json: bytes) -> bytes:
    r"""Write the unsafe characters of a JSON value as \uXXXX. The decoded value stays the same."""
    if json.isascii() and b"\x7f" not in json:
        return json
    return json.decode().translate(_JSON_ESCAPES).encode()


def symbol(character: str) -> str:
    """Return a symbol, or its ASCII form if stdout cannot encode it. Use this where the width of the text matters."""
    try:
        character.encode(sys.stdout.encoding)
    except UnicodeEncodeError:
        return _ASCII_FORMS[character]
    return character


def replace_unencodable(stream: TextIO) -> None:
    """Write characters that the encoding of a stream lacks in ASCII: `->` for an arrow, otherwise as escapes."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=_ENCODING_ERRORS)


def _encode_as_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of characters that cannot be encoded: a handler of encoding errors."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    forms = (_ASCII_FORMS.get(c) or c.encode("ascii", "backslashreplace").decode() for c in characters)
    return "".join(forms), error.end


codecs.register_error(_ENCODING_ERRORS, _encode_as_ascii)


def pluralise(count: int, noun: str) -> str:
    """Return a count with its noun: `1 page`, `2,000 pages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_rate(count: int, seconds: float | None) -> str:
    """Return the rate per second, with one decimal place for low rates."""
    rate = count / (seconds or 1e-9)
    return f"{rate:,.0f}/s" if rate >= 10 or not count else f"{rate:.1f}/s"
