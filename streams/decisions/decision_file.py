"""Read a file of decisions: one per line, as JSONL, CSV, TSV or with spaces between the columns.

The columns are the old URL and the new URL; a page without a new URL, or with `-`, is gone. Further columns are
ignored, so that redirect maps in the formats csv, apache and cloudflare can be read. A header that contains `old` may
list the columns in a different order. The column `decided_at` contains the time of a decision.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import TextIO

import msgspec

from state.model import Decision
from streams.decisions.recording import UNDATED, gone, moved
from streams.errors import InputError
from streams.timestamps import parse_date
from streams.urls import URL_BYTES_MAX

LINE_CHARACTERS_MAX = 4 * URL_BYTES_MAX
_HINT = "write `OLD NEW` on each line, or `OLD -` for a page that is gone; nothing was recorded"
_HOST_WITHOUT_SCHEME = re.compile(r"[\w-]+(?:\.[\w-]+)+(?::\d+)?/")  # as in maps for Apache and Cloudflare
_NO_URL = frozenset({"", "-"})


class _Line(msgspec.Struct, frozen=True):
    """The columns of a line, with their names in JSONL and in headers."""

    old: str
    new: str | None = None
    decided_at: str | float | None = None


_decode_json = msgspec.json.Decoder(_Line).decode


def read_decisions(file: TextIO, name: str, now: int, *, only_gone: bool = False) -> list[Decision]:
    """Return the decisions of a file that was opened with `errors="replace"`, one per URL.

    Raise InputError, with the number of the line, if a line is invalid, contradicts an earlier line, has a time after
    `now` (ms) or, with `only_gone`, has a new URL.
    """
    decisions: dict[bytes, tuple[int, Decision]] = {}  # by URL key, with the number of the line
    for number, line in _parse_lines(_numbered_lines(file, name), name):
        try:
            decision = _to_decision(line, now)
        except InputError as error:
            raise InputError(f"{name}, line {number}: {error}", _HINT) from error
        if only_gone and decision.new_url is not None:
            raise InputError(
                f"{name}, line {number}: a page that is gone has no new URL", "use `lostfound moved --from-file`"
            )
        first_number, first = decisions.setdefault(decision.key, (number, decision))
        if first.new_url != decision.new_url:
            raise InputError(f"{name}, line {number}: contradicts line {first_number}, which has the same URL", _HINT)
    return [decision for _, decision in decisions.values()]


def _numbered_lines(file: TextIO, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are neither empty nor comments, with their numbers."""
    for number, line in enumerate(iter(partial(file.readline, LINE_CHARACTERS_MAX + 1), ""), 1):
        if len(line) > LINE_CHARACTERS_MAX:
            raise InputError(f"{name}, line {number}: is longer than {LINE_CHARACTERS_MAX} characters", _HINT)
        if "\ufffd" in line or "\0" in line:
            raise InputError(f"{name}, line {number}: is not text in UTF-8", "save the file as UTF-8")
        if line.strip() and not line.startswith("#"):
            yield number, line.strip("\r\n ")


def _parse_lines(lines: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, _Line]]:
    """Yield the columns of each line. The first line determines the format of all lines."""
    first = next(lines, None)
    if first is None:
        return
    lines = chain([first], lines)
    if first[1].startswith("{"):
        for number, line in lines:
            try:
                yield number, _decode_json(line)
            except msgspec.DecodeError as error:
                raise InputError(f"{name}, line {number}: {error}", _HINT) from error
        return
    yield from _name_columns(_split(lines, first[1], name), name)


def _split(lines: Iterable[tuple[int, str]], first: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Split each line into cells, at the separator that the first line contains."""
    separator = next((character for character in "\t ," if character in first), " ")
    for number, line in lines:
        if separator == " ":
            yield number, line.split()
            continue
        try:
            (cells,) = csv.reader([line], delimiter=separator, strict=True)
        except (csv.Error, ValueError) as error:
            raise InputError(f"{name}, line {number}: {error}", _HINT) from error
        yield number, [cell.strip() for cell in cells]


def _name_columns(rows: Iterator[tuple[int, list[str]]], name: str) -> Iterator[tuple[int, _Line]]:
    """Yield the columns of each row, in the order of the header if the first row is a header."""
    columns = {"old": 0, "new": 1}
    for index, (number, cells) in enumerate(rows):
        names = [cell.lower() for cell in cells]
        if index == 0 and "old" in names:
            columns = {column: position for position, column in enumerate(names)}
            continue
        cell_of = {column: cells[position] for column, position in columns.items() if position < len(cells)}
        if not cell_of.get("old"):
            raise InputError(f"{name}, line {number}: has no old URL", _HINT)
        yield number, _Line(cell_of["old"], cell_of.get("new"), cell_of.get("decided_at") or None)


def _to_decision(line: _Line, now: int) -> Decision:
    time = UNDATED
    if line.decided_at is not None:
        parsed = parse_date(line.decided_at)
        if parsed is None or not UNDATED < parsed <= now:
            raise InputError(f"{line.decided_at!r} is not a time in the past")
        time = parsed
    old = f"https://{line.old}" if _HOST_WITHOUT_SCHEME.match(line.old) else line.old
    return gone(old, time) if (line.new or "") in _NO_URL else moved(old, line.new or "", time)
