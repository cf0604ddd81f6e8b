"""`lostfound moved`, `gone` and `decisions`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

OLD, NEW = f"{SITE}/guide/calibration.html", f"{SITE}/manual/calibration/"
ALIVE, GONE = f"{SITE}/faq.html", f"{SITE}/radio/packet.html"


def find(lostfound: Lostfound, url: str) -> tuple[str, str | None]:
    """Return the status of a URL, and its best candidate if this has any confidence."""
    (answer,) = lostfound("find", url, "--json").rows
    likely = [candidate["url"] for candidate in answer["candidates"][:1] if candidate["confidence"]]
    return answer["status"], next(iter(likely), None)


def test_a_decision_overrides_the_ranking_until_it_is_removed(lostfound: Lostfound, sample_state: Path) -> None:
    assert find(lostfound, OLD) == ("moved", NEW)
    result = lostfound("moved", OLD, ALIVE)
    assert (result.code, result.out) == (0, "recorded 1 decision\n")
    assert find(lostfound, OLD) == ("moved", ALIVE)
    table = lostfound("find", OLD).out
    assert "1.00" in table
    assert "decided by an editor on 2" in table
    assert f"→ {ALIVE}" in lostfound("find", "--missing").out
    assert lostfound("gone", OLD).out == "recorded 1 decision\n"
    assert find(lostfound, OLD) == ("gone", None)
    assert "an editor recorded that the page" in lostfound("find", OLD).out
    assert lostfound("gone", OLD).out.endswith(
        "; skipped 1, because the same or a later decision is already recorded\n"
    )
    assert lostfound("decisions", "--remove", OLD).out == "removed 1 decision\n"
    assert find(lostfound, OLD) == ("moved", NEW)
    assert lostfound("state", "check").code == 0


def test_a_decision_survives_later_sweeps_and_a_cancelled_one(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("moved", GONE, ALIVE)
    assert lostfound("ingest", SAMPLE / f"{SWEEPS[2]}.jsonl", "--sweep", "again").code == 0
    assert find(lostfound, GONE) == ("moved", ALIVE)
    assert lostfound("sweep", "cancel", "again").code == 0
    assert lostfound("sweep", "cancel", SWEEPS[0]).code == 0  # the only sweep that captured the URL
    assert find(lostfound, GONE) == ("moved", ALIVE)
    assert lostfound("state", "check").code == 0


def test_a_backup_contains_decisions(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
    lostfound("moved", GONE, ALIVE)
    lostfound("state", "backup", tmp_path / "copy")
    listed = lostfound("decisions", "--json").out
    assert lostfound("--data-dir", tmp_path / "copy", "decisions", "--json").out == listed
    assert any(row["family"] == "decisions" for row in lostfound("state", "dump").rows)
    (stats,) = lostfound("state", "stats", "--json").rows
    assert "decisions" in {family["family"] for family in stats["families"]}


def test_forgetting_a_url_deletes_its_decision(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("moved", OLD, ALIVE)
    lostfound("moved", f"{SITE}/never", ALIVE)
    result = lostfound("forget", OLD)
    assert "and the decision about the URL; rebuilt" in result.out
    assert lostfound("forget", f"{SITE}/never", "--json").rows == [
        {"captures": 0, "documents": 0, "rejoined": 0, "decisions": 1}
    ]
    assert lostfound("forget", f"{SITE}/never").code == 1
    assert lostfound("state", "dump", "decisions").out == ""


def test_forgetting_deletes_the_row_of_a_removed_decision(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("moved", f"{SITE}/never", ALIVE)
    lostfound("decisions", "--remove", f"{SITE}/never")
    assert "never" in lostfound("state", "dump", "decisions").out
    assert lostfound("forget", f"{SITE}/never").code == 1
    assert lostfound("state", "dump", "decisions").out == ""


def test_a_url_that_is_alive_mentions_its_decision(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("moved", ALIVE, NEW)
    assert find(lostfound, ALIVE) == ("alive", None)
    result = lostfound("find", ALIVE)
    assert f"that the page moved to {NEW}" in result.out


def test_redirect_maps_use_decisions(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("gone", OLD)
    lostfound("moved", GONE, ALIVE)
    lostfound("moved", f"{SITE}/never", ALIVE)
    lines = lostfound("find", "--missing", "--redirects", "csv").out.splitlines()
    assert f"{GONE},{ALIVE},1.000" in lines
    assert f"{SITE}/never,{ALIVE},1.000" in lines
    assert not [line for line in lines if line.startswith(OLD)]
    rows = lostfound("find", "--missing", "--csv").out.splitlines()
    assert rows[0].endswith(",known_url,decided_at")
    assert [row.split(",")[1] for row in rows if row.startswith(OLD)] == ["gone"]
    other_host = lostfound("find", "--missing", "--host", "other.example", "--json")
    assert other_host.rows == []


@pytest.mark.parametrize("map_format", ["csv", "apache", "cloudflare"])
def test_a_redirect_map_can_be_recorded(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path, map_format: str
) -> None:
    redirects = lostfound("find", "--missing", "--redirects", map_format).out
    (tmp_path / "map").write_text(redirects)
    assert lostfound("moved", "--from-file", tmp_path / "map").out == "recorded 4 decisions\n"
    assert (OLD, NEW) in [(row["old"], row["new"]) for row in lostfound("decisions", "--json").rows]


def test_the_export_can_be_recorded_elsewhere(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lostfound("moved", OLD, ALIVE)
    lostfound("gone", GONE, f"{SITE}/never")
    exported = lostfound("decisions", "--json")
    assert [list(row) for row in exported.rows] == [["old", "new", "decided_at"]] * 3
    other = tmp_path / "other"
    lostfound("--data-dir", other, "ingest", SAMPLE / f"{SWEEPS[0]}.jsonl", "--sweep", "one")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(exported.out.encode())))
    assert lostfound("--data-dir", other, "moved", "--from-file", "-", "--json").rows == [
        {"recorded": 3, "unchanged": 0}
    ]
    assert lostfound("--data-dir", other, "decisions", "--json").out == exported.out


def test_the_rank_of_the_new_url_is_exported(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("moved", OLD, NEW)
    lostfound("moved", f"{SITE}/guide/logging.html", "https://elsewhere.example/")
    lostfound("gone", GONE)
    ranks = {row["old"]: row["rank"] for row in lostfound("decisions", "--json", "--with-rank").rows}
    assert ranks == {OLD: 1, f"{SITE}/guide/logging.html": None, GONE: None}
    table = lostfound("decisions", "--with-rank").out
    assert "rank" in table
    assert f"→ {NEW}" in table
    assert "rank" not in lostfound("decisions").out


def test_a_file_with_an_invalid_line_changes_nothing(
    lostfound: Lostfound, sample_state: Path, tmp_path: Path
) -> None:
    for line in ("nonsense", f"{OLD} elsewhere", f"{ALIVE} {NEW}", f"{OLD} {OLD}"):
        (tmp_path / "file").write_text(f"{ALIVE} {OLD}\n{line}\n")
        result = lostfound("moved", "--from-file", tmp_path / "file")
        assert (result.code, result.out) == (2, ""), line
        assert "line 2" in result.err
    (tmp_path / "file").write_text(f"{GONE}\n{OLD} {NEW}\n")
    assert lostfound("gone", "--from-file", tmp_path / "file").code == 2
    assert lostfound("decisions").code == 1
    (tmp_path / "file").write_text(f"{GONE}\n{OLD} -\n")
    assert lostfound("gone", "--from-file", tmp_path / "file").out == "recorded 2 decisions\n"


def test_invalid_arguments_are_refused(lostfound: Lostfound, sample_state: Path) -> None:
    for arguments in (
        ["moved"], ["moved", OLD], ["moved", OLD, NEW, ALIVE], ["moved", OLD, NEW, "--from-file", "x"], ["gone"],
        ["moved", "x", NEW], ["moved", OLD, "x"], ["gone", "x"], ["decisions", "--remove", "x"],
        ["moved", "--from-file", "no such file"], ["moved", "--from-file", "."],
        ["decisions", "--remove", OLD, "--with-rank"],
    ):  # fmt: skip
        result = lostfound(*arguments)
        assert (result.code, result.out) == (2, ""), arguments
    assert lostfound("decisions").err == "no decision is recorded\n"


def test_a_decision_needs_a_state(lostfound: Lostfound) -> None:
    assert lostfound("gone", OLD).code == 4
    assert lostfound("decisions").code == 4


def test_a_decision_without_effect_is_not_an_error_but_a_removal_is(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("gone", GONE)
    assert lostfound("gone", GONE, "--json").rows == [{"recorded": 0, "unchanged": 1}]
    result = lostfound("decisions", "--remove", OLD, "--json")
    assert (result.code, json.loads(result.out)) == (1, {"removed": 0})
    assert OLD in result.err


def test_hostile_urls_are_escaped(lostfound: Lostfound, sample_state: Path) -> None:
    lostfound("moved", f"{OLD}?\x1b[31m", f"{NEW}?\x1b[31m")
    for command in (["decisions"], ["decisions", "--json"], ["find", f"{OLD}?\x1b[31m"]):
        assert "\x1b[31m" not in lostfound(*command).out
