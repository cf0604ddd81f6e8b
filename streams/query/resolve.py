"""Find the document for a URL, a document id or the beginning of an id."""

from __future__ import annotations

import re

from state.codecs import capture_row
from state.model import ID_BYTES, PREFIX_BYTES
from state.view import View
from streams.errors import InputError, NotFound
from streams.urls import url_key

_ID = re.compile(rf"[0-9a-fA-F]{{{2 * PREFIX_BYTES},{2 * ID_BYTES}}}")
_UNLIMITED = 1 << 62  # locations


def resolve(view: View, name: str) -> bytes:
    """Return the id of the last document of a URL, or of the only document whose hex id begins with `name`.

    Raise NotFound if no document matches, and InputError if several match or `name` is neither a URL nor an id.
    """
    if "://" in name:
        captures = view.all_captures(capture_row.history_prefix(url_key(name)))  # can be too many for a list
        last_document = None
        for capture in captures:
            last_document = capture.document or last_document
        if last_document is None:
            hint = "`lostfound find URL` shows what happened to the page"
            raise NotFound(f"no capture of {name} has a document", hint)
        return last_document
    if not _ID.fullmatch(name):
        hint = "a URL begins with https:// or http://, an id has 10 to 32 hex digits"
        raise InputError(f"{name!r} is neither a URL nor a document id", hint)
    digits = name.lower()
    # A prefix consists of whole bytes of two digits each, so an odd last digit is compared afterwards.
    rows = view.documents_by_prefixes([bytes.fromhex(digits[: len(digits) // 2 * 2])])
    documents = [row.sketch.document for row in rows if row.sketch.document.hex().startswith(digits)]
    if view.has_cancelling_sweep:
        documents = [document for document in documents if _is_captured(view, document)]
    if not documents:
        raise NotFound(f"no document has an id that begins with {name}", "`lostfound similar URL` shows document ids")
    if len(documents) > 1:
        raise InputError(f"{len(documents)} documents have ids that begin with {name}", "add more digits")
    return documents[0]


def _is_captured(view: View, document: bytes) -> bool:
    """Return whether a sweep that is not being cancelled has captured this document."""
    (keys,) = view.locations([document], _UNLIMITED)
    return any(capture.document == document for captures in view.histories(keys) for capture in captures)
