"""Files of JSON lines: end a file with a complete line."""

from __future__ import annotations

from pathlib import Path

import msgspec

_LINE_BYTES_MAX = 1 << 20


def truncate(file: Path, length: int) -> None:
    """Truncate a file to at most `length` bytes, so that it ends with a complete line.

    A line that is cut, for example because the computer crashed while it was written, is removed. If the last line
    lacks only its line feed, as in a file saved by an editor, the line feed is added. Lines of more than a mebibyte
    may be cut.
    """
    size = file.stat().st_size
    end = min(size, length)
    with file.open("rb+") as stream:
        tail_start = stream.seek(max(0, end - _LINE_BYTES_MAX))
        tail = stream.read(end - tail_start)
        last_line = tail[tail.rfind(b"\n") + 1 :]
        if end == size and last_line and _is_json(last_line):
            stream.write(b"\n")
        elif last_line or end < size:
            stream.truncate(end - len(last_line))


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return False
    return True
