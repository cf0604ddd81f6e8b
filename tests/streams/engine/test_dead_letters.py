from __future__ import annotations

import json
from pathlib import Path

from streams.engine.dead_letters import DeadLetters
from streams.page import Origin, Rejected

ONE = Rejected("bad_url", "not a URL: 'x'", Origin("/data/a.wacz", 17, "archive/a.warc.gz"), "x")


def test_a_letter_says_why_and_where(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "2026-11")
    assert letters.length() == 0
    assert letters.write([]) == 0
    assert not letters.path.exists()
    assert letters.write([ONE, ONE]) == letters.path.stat().st_size
    first, second = map(json.loads, letters.path.read_text().splitlines())
    assert (
        first
        == second
        == {
            "reason": "bad_url",
            "detail": "not a URL: 'x'",
            "url": "x",
            "source": "/data/a.wacz",
            "member": "archive/a.warc.gz",
            "offset": 17,
            "sweep": "2026-11",
        }
    )


def test_what_was_not_committed_is_cut_off(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    committed = letters.write([ONE])
    letters.write([ONE, ONE])
    assert letters.cut(committed) == letters.length() == committed
    assert letters.cut(committed + 1) == committed
    letters.path.unlink()
    assert letters.cut(committed) == 0


def test_a_file_that_is_another_is_cut_between_lines(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    line = letters.write([ONE])
    letters.write([ONE] * 4)
    assert letters.cut(3 * line + 5) == 3 * line
    assert letters.cut(line - 1) == 0


def test_what_no_utf8_can_hold_is_still_a_letter(tmp_path: Path) -> None:
    letters = DeadLetters(tmp_path / "dead-letters.jsonl", "one")
    letters.write([Rejected("bad_url", "lone \ud800 surrogate", Origin("a", 0), "http://a/\udc80")])
    (line,) = letters.path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["reason"] == "bad_url"
