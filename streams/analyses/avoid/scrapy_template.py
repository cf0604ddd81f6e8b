"""Skip the copies of replicated collections in a Scrapy crawl.

Written by `lostfound avoid --format scrapy`. Save this file as `lostfound_avoid.py` in your project, and add to its
`settings.py`:

    DOWNLOADER_MIDDLEWARES = {"lostfound_avoid.AvoidMiddleware": 50}
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from scrapy.exceptions import IgnoreRequest

# Whether URLs with this prefix are kept; the longest prefix wins. Prefixes have no scheme.
KEEP: dict[str, bool] = {}


def is_skipped(url: str) -> bool:
    """Return whether the list says that a URL need not be fetched."""
    parts = urlsplit(url)
    port = "" if parts.port in (None, 80, 443) else f":{parts.port}"
    host = parts.hostname or ""
    path = f"{'[' + host + ']' if ':' in host else host}{port}{parts.path or '/'}"
    if (keep := KEEP.get(f"{path}?{parts.query}" if parts.query else path)) is not None:
        return not keep
    while path:
        path = path[: path.rfind("/", 0, -1) + 1] if path.endswith("/") else path[: path.rfind("/") + 1]
        if (keep := KEEP.get(path)) is not None:
            return not keep
    return False


class AvoidMiddleware:
    """A downloader middleware that drops requests for pages whose copies are crawled elsewhere."""

    def process_request(self, request: Any, spider: Any = None) -> None:  # noqa: ARG002  older releases pass the spider
        if is_skipped(request.url):
            raise IgnoreRequest(f"in the avoid-list: {request.url}")
