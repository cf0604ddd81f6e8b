"""`lostfound mirrors`."""

from __future__ import annotations

from pathlib import Path

from tests.streams.cli.conftest import SITE, Lostfound

SAMPLE = Path(__file__).parents[3] / "streams" / "demo" / "sample"
MIRROR = "https://mirror.windvane.example"


def ingest_two_hosts(lostfound: Lostfound, folder: Path, sweep: str, edit: tuple[str, str] = ("", "")) -> None:
    """Ingest the sample's last sweep from two hosts. On the second host, replace a string by another one."""
    text = (SAMPLE / "2025-09.jsonl").read_text(encoding="utf-8")
    pages = folder / f"{sweep}.jsonl"
    pages.write_text(text + text.replace(SITE, MIRROR).replace(*edit), encoding="utf-8")
    lostfound("ingest", pages, "--sweep", sweep)


def test_a_mirror_is_found_and_stored(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest_two_hosts(lostfound, tmp_path, "1")
    result = lostfound("mirrors", "--json")
    assert result.rows == [
        {
            "hosts": ["mirror.windvane.example", "www.windvane.example"],
            "level": "1",
            "tests": 15,
            "same": 15,
            "similar": 0,
            "failed": 0,
            "unknown": 0,
            "paths": 15,
            "error_bound": 0.2,
            "alias": None,
            "group": "mirror.windvane.example",
            "evidence": [{"kind": "same_bytes", "value": 15}],
        }
    ]
    assert lostfound("mirrors", "--json").out == result.out  # the stored results
    assert "www.windvane.example" in lostfound("mirrors").out


def test_changes_since_a_sweep(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest_two_hosts(lostfound, tmp_path, "1")
    ingest_two_hosts(lostfound, tmp_path, "2", edit=(" wind ", " water "))
    (change,) = lostfound("mirrors", "--since", "1", "--json").rows
    assert (change["change"], change["level_before"], change["level"]) == ("diverged", "1", "3")
    assert "diverged" in lostfound("mirrors", "--since", "1").out
    assert lostfound("mirrors", "--since", "2").code == 1
    assert lostfound("mirrors", "--sweep", "1", "--json").rows[0]["level"] == "1"
    unknown = lostfound("mirrors", "--since", "nope")
    assert unknown.code == 2
    assert "sweep 'nope' does not exist" in unknown.err


def test_one_host_has_no_mirrors(lostfound: Lostfound, sample_state: Path) -> None:
    result = lostfound("mirrors", "--method", "paper")
    assert (result.code, result.out) == (1, "")
    assert "no two hosts" in result.err
