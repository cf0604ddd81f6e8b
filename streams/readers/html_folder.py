"""Read a folder of HTML, such as the build of a documentation, as the pages that a server would make of it.

`index.html` has the URL of its folder, and every other file has its own name. Only files whose suffix shows HTML or
text are read.
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
_INDEX_NAMES = frozenset({"index.html", "index.htm", "index.xhtml"})
_SAFE = "/-._~!$&'()*+,;=:@"  # characters that need no percent-encoding in a path (RFC 3986)
_HTML_SEARCH_ENTRIES_MAX = 10_000  # files and folders that are looked at to recognise a folder of HTML


class HtmlFolder(msgspec.Struct, frozen=True):
    """A folder whose files are pages below `base_url`. Files that match one of the patterns `exclude` are skipped."""

    root: str
    base_url: str
    exclude: tuple[str, ...] = ()

    def url_of(self, name: str) -> str:
        """Return the URL of a file of the folder."""
        path = Path(os.path.relpath(name, self.root))
        parts = path.parts[:-1] if path.name.lower() in _INDEX_NAMES else path.parts
        is_index = len(parts) < len(path.parts)
        return self.base_url + quote("/".join(parts), safe=_SAFE) + ("/" if is_index and parts else "")

    def is_page(self, path: Path) -> bool:
        """Return whether a file of the folder is a page. A link that leads out of the folder is not."""
        if path.suffix.lower() not in _MEDIA_TYPES or self._is_excluded(path):
            return False
        return not path.is_symlink() or path.resolve().is_relative_to(Path(self.root).resolve())

    def _is_excluded(self, path: Path) -> bool:
        """Return whether a pattern matches the name or the path of the file, or of a folder that contains it."""
        parts = Path(os.path.relpath(path, self.root)).parts
        names = [*parts, *("/".join(parts[:end]) for end in range(2, len(parts) + 1))]
        return any(fnmatchcase(name, pattern.strip("/")) for pattern in self.exclude for name in names)


def open_folder(path: str, base_url: str, exclude: tuple[str, ...] = ()) -> HtmlFolder:
    """Return the folder of HTML at a path. Raise InputError if it is not a folder or the URL cannot be extended."""
    if not Path(path).is_dir():
        raise InputError(f"{path} is not a folder, but --base-url needs one", "name the folder that the URL serves")
    try:
        url_key(base_url)
        has_path_only = not (urlsplit(base_url).query or urlsplit(base_url).fragment)
    except (BadUrl, ValueError) as error:
        raise InputError(f"--base-url {base_url!r}: {error}", "write it like https://docs.example.org/") from None
    if not has_path_only:
        raise InputError(
            f"--base-url {base_url!r} has a query or fragment", "write it like https://docs.example.org/"
        )
    return HtmlFolder(os.path.abspath(path), base_url.rstrip("/") + "/", exclude)  # noqa: PTH100 - keeps links


def contains_html(path: str) -> bool:
    """Return whether a folder seems to contain HTML. Only some of a large folder is looked at."""
    entries_seen = 0
    for _, subfolders, files in os.walk(path):
        if any(Path(name).suffix.lower() in {".html", ".htm", ".xhtml"} for name in files):
            return True
        entries_seen += len(subfolders) + len(files)
        if entries_seen > _HTML_SEARCH_ENTRIES_MAX:
            break
    return False


def read_items(file: BinaryIO, folder: HtmlFolder, start: Position, limits: ReadLimits) -> Iterator[PositionedItem]:
    """Yield the page or rejection of a file, unless it was read up to `start`. Its time is that of the file."""
    status = os.fstat(file.fileno())
    if start.next_line and start.offset == status.st_size:
        return
    position = Position(source=start.source, offset=status.st_size, next_line=1)
    url, origin = folder.url_of(start.source), Origin(start.source, 0)
    try:
        key = url_key(url, limits.url_bytes_max)
    except BadUrl as error:
        yield position, Rejected("bad_url", str(error), origin, url[: limits.url_bytes_max])
        return
    data = file.read(limits.page_bytes_max + 1)
    is_too_big = len(data) > limits.page_bytes_max
    size = max(status.st_size, len(data))
    yield (
        position,
        Page(
            url=url,
            key=key,
            time=max(0, int(status.st_mtime * 1000)),
            body=None if is_too_big else data,
            mime=_MEDIA_TYPES.get(Path(start.source).suffix.lower(), ""),
            content_error=("too_big", too_big_detail(size, limits)) if is_too_big else None,
            origin=origin,
        ),
    )
