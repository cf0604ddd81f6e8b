"""Convert the options of `ingest` and `publish` that describe the input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from streams.errors import InputError

if TYPE_CHECKING:
    from streams.readers.read_options import ReadOptions
    from streams.settings import Settings


def read_options(
    settings: Settings,
    paths: Sequence[str],
    *,
    columns: Sequence[str],
    base_url: str | None,
    exclude: Sequence[str],
    page_time: str | None,
) -> ReadOptions:
    """Return the options for reading. Raise InputError if an option is invalid or contradicts another one."""
    from streams import timestamps
    from streams.readers import html_folder
    from streams.readers.read_options import ReadOptions

    folder = None
    if base_url is not None:
        if len(paths) != 1:
            raise InputError(
                f"--base-url is for one folder, not for {len(paths)} paths", "ingest one folder at a time"
            )
        patterns = (*settings.ingest.html_exclude, *exclude)
        folder = html_folder.open_folder(paths[0], base_url, patterns)
    elif exclude:
        raise InputError("--exclude has no effect without --base-url", "add --base-url, or omit --exclude")
    time = 0 if page_time is None else timestamps.parse_date(page_time)
    if time is None:
        raise InputError(f"--time {page_time!r} is not a time", "write it like 2026-11-30 or 2026-11-30T12:00:00Z")
    options = ReadOptions(columns=_parse_columns(columns), html_folder=folder, time=time)
    options.line_type()  # raises InputError for an unknown field name
    return options


def _parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for pair in pairs:
        name, separator, column = pair.partition("=")
        if not (name and separator and column):
            raise InputError(f"--field {pair!r} is not NAME=COLUMN", "write it like --field text=content")
        if name in columns:
            raise InputError(f"--field is given twice for {name!r}", "give each field one column")
        columns[name] = column
    return columns
