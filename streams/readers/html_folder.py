"""Read a folder of HTML, such as a built documentation site, as the pages that a web server would serve from it.

The URL of `index.html` is that of its folder; the URL of any other file ends with the file's name. Only files with
an HTML, text or Markdown extension are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

import msgspec

from streams.errors import BadUrl, InputError
from streams.page import Origin, Page, Rejected
from streams.readers.position import Position, PositionedItem
from streams.readers.read_limits import ReadLimits, too_big_detail
from streams.urls import url_key

_MEDIA_TYPES = {
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "application/xhtml+xml",
    ".txt": "text/plain",
    ".md": "text/markdown",
}
_HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
_UNQUOTED_CHARACTERS = "/-._~!$&'()*+,;=:@"  # these need no percent-encoding in a path (RFC 3986)
_ENTRIES_EXAMINED_MAX = 10_000  # files and folders examined to recognise a folder of HTML


class HtmlFolder(msgspec.Struct, frozen=True):
    """A folder whose files are served below `base_url`. Files that match a pattern in `exclude` are not read."""

    root: str
    base_url: str
    exclude: tuple[str, ...] = ()

    def url_of(self, name: str) -> str:
        """Return the URL of a file in the folder."""
        path = Path(os.path.relpath(name, self.root))
        is_index = path.stem.lower() == "index" and path.suffix.lower() in _HTML_SUFFIXES
        parts = path.parts[:-1] if is_index else path.parts
        return self.base_url + quote("/".join(parts), safe=_UNQUOTED_CHARACTERS) + ("/" if is_index and parts else "")

    def is_page(self, path: Path) -> bool:
        """Return whether a file in the folder is a page. A symlink that points outside the folder is not a page."""
        if path.suffix.lower() not in _MEDIA_TYPES or self._is_excluded(path):
            return False
        return not path.is_symlink() or path.resolve().is_relative_to(Path(self.root).resolve())

    def _is_excluded(self, path: Path) -> bool:
        """Return whether a pattern matches the name or the path of the file, or of a folder that contains it."""
        parts = Path(os.path.relpath(path, self.root)).parts
        names = [*parts, *("/".join(parts[:end]) for end in range(2, len(parts) + 1))]
        return any(fnmatchcase(name, pattern.strip("/")) for pattern in self.exclude for name in names)


def open_folder(path: str, base_url: str, exclude: tuple[str, ...] = ()) -> HtmlFolder:
    """Return the folder of HTML at a path. Raise InputError if it is not a folder, or `base_url` is unsuitable."""
    if not Path(path).is_dir():
        raise InputError(
            f"{path} is not a folder, but --base-url needs one", "give the folder that is served at this URL"
        )
    try:
        url_key(base_url)
        parts = urlsplit(base_url)
    except (BadUrl, ValueError) as error:
        raise InputError(f"--base-url {base_url!r}: {error}", "write it like https://docs.example.org/") from None
    if parts.query or parts.fragment:
        raise InputError(
            f"--base-url {base_url!r} has a query or fragment", "write it like https://docs.example.org/"
        )
    root = os.path.abspath(path)  # noqa: PTH100 - resolve() would follow symlinks
    return HtmlFolder(root, base_url.rstrip("/") + "/", exclude)


def contains_html(path: str) -> bool:
    """Return whether a folder contains HTML. Only part of a large folder is examined."""
    entries_examined = 0
    for _, subfolders, files in os.walk(path):
        if any(Path(name).suffix.lower() in _HTML_SUFFIXES for name in files):
            return True
        entries_examined += len(subfolders) + len(files)
        if entries_examined > _ENTRIES_EXAMINED_MAX:
            break
    return False


def read_items(file: BinaryIO, folder: HtmlFolder, start: Position, limits: ReadLimits) -> Iterator[PositionedItem]:
    """Yield the file's page or rejection, or nothing if `start` is already at the end of the file.

    The page's time is the file's modification time.
    """
    stat = os.fstat(file.fileno())
    if start.next_line and start.offset == stat.st_size:
        return
    position = Position(source=start.source, offset=stat.st_size, next_line=1)  # 1: the file has been read
    url, origin = folder.url_of(start.source), Origin(start.source, 0)
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        yield position, Rejected("bad_url", str(error), origin, url[: limits.url_bytes_max])
        return
    data = file.read(limits.page_bytes_max + 1)
    is_too_big = len(data) > limits.page_bytes_max
    size = max(stat.st_size, len(data))
    yield (
        position,
        Page(
            url=url,
            key=key,
            time=max(0, int(stat.st_mtime * 1000)),
            body=None if is_too_big else data,
            mime=_MEDIA_TYPES.get(Path(start.source).suffix.lower(), ""),
            content_error=("too_big", too_big_detail(size, limits)) if is_too_big else None,
            origin=origin,
        ),
    )
