"""Words for a terminal: what others wrote made harmless, so that no page moves the cursor or turns text round."""

from __future__ import annotations

_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}  # NUL is shown as ␀, escape as ␛
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_UNSEEN = [*range(0x80, 0xA0), *_DIRECTIONS]
_STEERS = [*_PICTURES, *_UNSEEN]
_HARMLESS = str.maketrans(_PICTURES | dict.fromkeys(_UNSEEN, "\ufffd"))
_PERCENT = {code: "".join(f"%{byte:02X}" for byte in chr(code).encode()) for code in _STEERS}
_ESCAPED = {code: f"\\u{code:04x}" for code in _STEERS if code >= 0x20}  # JSON has those below escaped already


def plain(text: str) -> str:
    """The text with control characters (C0, C1, DEL), line separators and those of writing direction made visible."""
    return text if text.isascii() and text.isprintable() else text.translate(_HARMLESS)


def percent(url: str) -> str:
    """A URL as it may be written anywhere: what is no part of a valid one, and steers, as browsers write it."""
    return url if url.isascii() and url.isprintable() else url.translate(_PERCENT)


def escaped(json: bytes) -> bytes:
    """The same JSON value, with what would steer a terminal written by its number, as JSON allows."""
    if json.isascii() and b"\x7f" not in json:
        return json
    return json.decode().translate(_ESCAPED).encode()


def counted(count: int, thing: str) -> str:
    """So many of a thing: `1 page`, `2,000 pages`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
