"""Tests of streams/terminal/mirror_tables.py."""

from __future__ import annotations

from typing import Any

import pytest

from streams.analyses.mirrors import Evidence, Mirror, MirrorChange
from streams.analyses.mirrors.levels import EVIDENCE_KINDS
from streams.terminal import layout, mirror_tables


def mirror(a: str, b: str, level: str, **fields: Any) -> Mirror:
    defaults = {"tests": 40, "same": 40, "similar": 0, "failed": 0, "unknown": 3, "paths": 40, "error_bound": None}
    return Mirror(hosts=(a, b), level=level, **{"alias": None, "group": None, "evidence": [], **defaults, **fields})


def printed(capsys: pytest.CaptureFixture[str], table: Any) -> list[str]:
    layout.print_to_stdout(table)
    return capsys.readouterr().out.splitlines()


MIRRORS = [
    mirror("a.example", "www.a.example", "1", alias="www", group="a.example"),
    mirror("a.example", "copy.example", "3", group="a.example"),
    mirror(
        "a.example",
        "part.example",
        "4",
        failed=2,
        evidence=[
            Evidence(kind="same_bytes", value=40),
            Evidence(kind="absent_folder", value=12, url="https://a.example/\x1b[2J/"),
        ],
    ),
    mirror("a.example", "other.example", "mismatch"),
]


def test_groups_come_first_and_other_pairs_are_counted(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert printed(capsys, mirror_tables.mirrors_table(MIRRORS, all_pairs=False)) == [
        "level  tests  same  similar  failed  unknown  hosts  group",
        "1-3       80    80        0       0        6      3  a.example",
        "    copy.example",
        "    www.a.example  alias: www",
        "",
        "level  tests  same  similar  failed  unknown  hosts",
        "4         40    40        0       2        3  a.example  part.example",
        "    all have the same bytes · the 12 pages of https://a.example/␛[2J/ are missing on the other host",
        "1 other pair untested or without a match; --all lists all pairs",
    ]


def test_all_pairs(capsys):
    lines = printed(capsys, mirror_tables.mirrors_table(MIRRORS, all_pairs=True))
    assert [line.split()[0] for line in lines if not line.startswith("    ")] == ["level", "1", "3", "4", "mismatch"]
    assert lines[1].endswith("a.example  www.a.example  (www)")


def test_long_groups_are_cut(capsys):
    pairs = [mirror("a.example", f"copy{n:02}.example", "1", group="a.example") for n in range(30)]
    lines = printed(capsys, mirror_tables.mirrors_table(pairs, all_pairs=False))
    assert lines[-1] == "    and 20 more"
    assert "  31  a.example" in lines[1]


@pytest.mark.parametrize("kind", EVIDENCE_KINDS)
def test_all_evidence_is_described(kind):
    assert kind in mirror_tables.EVIDENCE


def test_changes(capsys):
    changes = [
        MirrorChange(change="appeared", hosts=("a.example", "b.example"), level_before=None, level="1"),
        MirrorChange(change="diverged", hosts=("a.example", "c.example"), level_before="2", level="mismatch"),
    ]
    assert printed(capsys, mirror_tables.mirror_changes_table(changes)) == [
        "change    level         hosts",
        "appeared  none → 1      a.example  b.example",
        "diverged  2 → mismatch  a.example  c.example",
    ]
