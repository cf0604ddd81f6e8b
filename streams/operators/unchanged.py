"""unchanged: recognises pages whose URL served the same bytes last time, so that they need no sketch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from state.model import Capture
from streams.operators.messages import SketchedPage
from streams.page import SUCCESS_STATUSES, Page
from streams.sketch.sketcher import fingerprint


def find_unchanged(pages: Sequence[Page], last: Mapping[bytes, Capture], sweep: int) -> list[SketchedPage | None]:
    """Return the capture of each unchanged page of a sweep, without a payload; None for the other pages.

    `last` is the last capture of each URL that has one, by URL key. The document of an unchanged page is stored
    already; another extractor or tokeniser would be another state, so the same bytes give the same document.

    A page from before the last capture needs its sketch: its document's text is kept with the time of its first page.
    """
    return [_find_unchanged(page, last.get(page.key), sweep) for page in pages]


def _find_unchanged(page: Page, previous: Capture | None, sweep: int) -> SketchedPage | None:
    if previous is None or previous.document is None or previous.status not in SUCCESS_STATUSES:
        return None
    if page.status not in SUCCESS_STATUSES or (page.body or page.text) is None or page.time < previous.time:
        return None
    if page.revisit_of is not None or page.redirect is not None or page.refused is not None:
        return None
    raw = fingerprint_page(page)
    if raw != previous.raw:
        return None
    capture = Capture(
        key=page.key,
        url=page.url,
        sweep=sweep,
        time=page.time,
        status=page.status,
        document=previous.document,
        raw=raw,
        extractor=previous.extractor,
    )
    return SketchedPage(capture=capture, origin=page.origin)


def fingerprint_page(page: Page) -> bytes:
    """Return 8 bytes over everything that the title and the text of a page are extracted from."""
    title = b"title\0" + page.title.encode("utf-8", "replace") + b"\0" if page.title else b""
    if page.text is not None:
        return fingerprint(title + b"text\0" + page.text.encode("utf-8", "replace"))
    return fingerprint(title + f"{page.mime}\0{page.charset}\0".encode() + (page.body or b""))
