"""The document that a URL or an id names."""

from __future__ import annotations

import pytest

from state.view import View
from streams.errors import InputError
from streams.query import resolve
from tests.streams.query.conftest import (
    IDS,
    URL,
)


def test_a_url_or_the_beginning_of_an_id_names_a_document(view: View) -> None:
    assert resolve(view, URL.format("base")) == IDS["lone"]
    assert resolve(view, URL.format("near")) == IDS["near"], "its last document"
    for digits in (32, 31, 20, 11, 10):
        assert resolve(view, IDS["far"].hex()[:digits]) == IDS["far"]
        assert resolve(view, IDS["far"].hex()[:digits].upper()) == IDS["far"]


def test_an_odd_digit_counts(view: View) -> None:
    known = IDS["far"].hex()
    with pytest.raises(InputError, match="no document has"):
        resolve(view, known[:10] + ("0" if known[10] != "0" else "1"))


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("https://a.org/never", "no capture of"),
        ("beef", "neither a URL nor a document id"),
        ("not hex at all", "neither a URL nor a document id"),
        ("ab cd ef 01 23", "neither a URL nor a document id"),
        ("www.shop.example/x", "neither a URL nor a document id"),
        ("ff" * 16, "no document has an id that begins with"),
        ("0" * 9, "neither a URL nor a document id"),
        ("ff" * 17, "neither a URL nor a document id"),
    ],
)
def test_a_name_without_a_document_is_refused(view: View, named: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        resolve(view, named)
    assert refused.value.hint
