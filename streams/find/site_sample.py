"""Sample the URLs of a host, spread over its directories, for statistics of the site."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from streams.urls import directory_prefix

if TYPE_CHECKING:
    from state.model import Capture
    from state.view import View

_SCAN_CAPTURES_MAX = 4_096  # captures whose keys are read at once; a larger site is sampled by directory
_DIRECTORIES_MAX = 64
_DIRECTORY_CAPTURES, _DIRECTORY_URLS = 128, 8
_URLS_FACTOR = 4  # URLs read per URL that the last sweep should have
_CAPTURES_MAX = 1_536


def sample_site(view: View, host: bytes, urls_max: int, last_sweep: int) -> list[list[Capture]]:
    """Return the captures of a sample of a host's URLs, one list per URL.

    The sample ends when about `urls_max` of its URLs were captured in `last_sweep`; other URLs that were read on the
    way are part of it. On a large host the sample is spread over the directories.
    """
    urls = view.urls_under(host, _SCAN_CAPTURES_MAX)
    if len(urls) > 1 and view.urls_under(host, 1, urls[-1] + b"\xff"):
        spread = _skim_directories(view, host)
        urls = spread if len(spread) >= urls_max else [*spread, *urls]
    sample: list[list[Capture]] = []
    captures_read = current_urls = 0
    order = sorted(set(urls), key=lambda key: (zlib.crc32(key), key))[: _URLS_FACTOR * urls_max]
    for start in range(0, len(order), urls_max):
        for captures in view.histories(order[start : start + urls_max]):
            sample.append(captures)
            captures_read += len(captures)
            current_urls += any(capture.sweep == last_sweep for capture in captures)
            if current_urls >= urls_max or captures_read >= _CAPTURES_MAX:
                return sample
    return sample


def _skim_directories(view: View, host: bytes) -> list[bytes]:
    """Return the first URLs of each directory and some of the root, for at most `_DIRECTORIES_MAX` directories."""
    results: list[bytes] = []
    start: bytes | None = None
    for _ in range(_DIRECTORIES_MAX):
        keys = view.urls_under(host, _DIRECTORY_CAPTURES, start)
        if not keys:
            break
        urls = keys[:_DIRECTORY_URLS]
        results += urls
        folder = directory_prefix(urls[-1])
        # Skip the rest of the folder; but not of the root, in which all other directories are.
        start = (folder if len(folder) > len(host) + 1 else keys[-1]) + b"\xff"
    return results
