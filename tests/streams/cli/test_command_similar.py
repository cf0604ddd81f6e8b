"""`lostfound similar`: input from a URL, a file and stdin."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.streams.cli.conftest import SAMPLE, SITE, Lostfound


def test_a_url_is_compared_by_its_last_document(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("similar", f"{SITE}/manual/logging/", "--json").rows
    assert rows[0]["resemblance"] == 1.0
    alerts = next(row for row in rows if row["urls"] == [f"{SITE}/guide/alerts.html"])
    assert alerts["contained"] > 0.8 > alerts["resemblance"]
    assert alerts["first_seen"].startswith("20")
    assert "±" in lostfound("similar", f"{SITE}/manual/logging/").out


def test_a_file_and_stdin_give_the_same_answer(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = json.loads((SAMPLE / "2023-03.jsonl").read_text().splitlines()[1])
    (tmp_path / "page.html").write_text(page["html"])
    (row, *_) = lostfound("similar", tmp_path / "page.html", "--json").rows
    assert (row["urls"], row["resemblance"]) == ([page["url"]], 1.0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(page["html"].encode())))
    assert lostfound("similar", "-", "--json").rows[0] == row


def test_an_empty_answer_has_exit_code_1(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("words that no stored page contains in this order or in any other")
    result = lostfound("similar", tmp_path / "other.txt")
    assert (result.code, result.out) == (1, "")


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"\x89PNG\r\n\x1a\n" + bytes(64)], ids=["empty", "blank", "picture"]
)
def test_a_page_without_words_is_an_error(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "no-words").write_bytes(content)
    result = lostfound("similar", tmp_path / "no-words")
    assert result.code == 2
    assert "Traceback" not in result.err


def test_a_missing_file_or_url_is_an_error(lostfound: Lostfound, sample_state: Path) -> None:
    assert lostfound("similar", "nowhere.html").code == 2
    assert lostfound("similar", f"{SITE}/never").code == 1
