"""Words for a terminal: what others wrote made harmless, so that no page moves the cursor or turns text round."""

from __future__ import annotations

_PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}  # NUL is shown as ␀, escape as ␛
_DIRECTIONS = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_HARMLESS = str.maketrans(_PICTURES | dict.fromkeys([*range(0x80, 0xA0), *_DIRECTIONS], "\ufffd"))


def plain(text: str) -> str:
    """The text with control characters (C0, C1, DEL), line separators and those of writing direction made visible."""
    return text if text.isascii() and text.isprintable() else text.translate(_HARMLESS)


def counted(count: int, thing: str) -> str:
    """So many of a thing: `1 page`, `2,000 pages`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
