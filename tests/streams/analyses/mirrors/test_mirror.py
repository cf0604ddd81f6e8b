"""Tests of streams/analyses/mirrors/mirror.py: the comparison of two sweeps."""

from __future__ import annotations

from streams.analyses.mirrors import Mirror, MirrorChange, compare


def mirror(b: str, level: str) -> Mirror:
    return Mirror(
        hosts=("a.example", b),
        level=level,
        tests=9,
        same=0,
        similar=0,
        failed=0,
        unknown=0,
        paths=9,
        error_bound=None,
        alias=None,
        group=None,
        evidence=[],
    )


def test_changes_between_two_sweeps():
    before = [
        mirror("same", "1"),
        mirror("worse", "2"),
        mirror("lost", "1"),
        mirror("few", "3"),
        mirror("no", "mismatch"),
    ]
    now = [
        mirror("same", "1"),
        mirror("worse", "mismatch"),
        mirror("few", "untested"),
        mirror("no", "2"),
        mirror("new", "5"),
        mirror("never", "mismatch"),
        mirror("little", "untested"),
    ]
    assert [
        (change.hosts[1], change.change, change.level_before, change.level) for change in compare(before, now)
    ] == [
        ("few", "vanished", "3", "untested"),
        ("lost", "vanished", "1", None),
        ("new", "appeared", None, "5"),
        ("no", "appeared", None, "2"),
        ("worse", "diverged", "2", "mismatch"),
    ]
    assert compare(now, now) == []
    better = MirrorChange(change="converged", hosts=("a.example", "x"), level_before="4", level="1")
    assert compare([mirror("x", "4")], [mirror("x", "1")]) == [better]
