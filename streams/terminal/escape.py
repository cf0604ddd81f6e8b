"""Escape crawled text, so that it cannot move a terminal's cursor or reverse the direction of text."""

from __future__ import annotations

_CONTROL_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}  # NUL becomes ␀, ESC becomes ␛
_LINE_SEPARATORS = [0x2028, 0x2029]
_DIRECTION_MARKS = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_INVISIBLE = [*range(0x80, 0xA0), *_LINE_SEPARATORS, *_DIRECTION_MARKS]
_UNSAFE = [*_CONTROL_PICTURES, *_INVISIBLE]
_TEXT_ESCAPES = str.maketrans(_CONTROL_PICTURES | dict.fromkeys(_INVISIBLE, "\ufffd"))
_URL_ESCAPES = {code: "".join(f"%{byte:02X}" for byte in chr(code).encode()) for code in _UNSAFE}
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


def pluralise(count: int, noun: str) -> str:
    """Return a count with its noun: `1 page`, `2,000 pages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
