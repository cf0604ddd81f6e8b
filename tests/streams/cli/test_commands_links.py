"""`lostfound links`."""

from __future__ import annotations

from pathlib import Path

from tests.samples import html, jsonl
from tests.streams.cli.conftest import SITE, SWEEPS, Lostfound

A, B, C = "https://a.org/a", "https://a.org/b", "https://b.org/c"


def test_links_to_a_url_say_who_links_with_which_words_and_since_when(
    lostfound: Lostfound, sample_state: Path
) -> None:
    rows = lostfound("links", f"{SITE}/faq.html", "--json").rows
    assert len(rows) == 19
    assert {(row["target"], row["anchor"], row["kind"]) for row in rows} == {
        (f"{SITE}/faq.html", "Questions", "anchor")
    }
    (calibration,) = [row for row in rows if row["source"] == f"{SITE}/guide/calibration.html"]
    assert calibration["first_seen"] == calibration["last_seen"] == "2023-03-14T09:04:00Z"
    (home,) = [row for row in rows if row["source"] == f"{SITE}/"]
    assert (home["first_sweep"], home["last_sweep"]) == (SWEEPS[0], SWEEPS[2])
    assert home["navigation"]  # in the newest capture; the first one had no <nav>
    table = lostfound("links", f"{SITE}/faq.html", "--in").out
    assert "Questions" in table
    assert f"{SITE}/manual/logging/" in table


def test_links_from_a_url_are_in_the_order_of_the_page(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("links", f"{SITE}/", "--out", "--json").rows
    assert [row["anchor"] for row in rows] == ["Installation", "Ten minutes", "Questions", "About"]
    assert {row["source"] for row in rows} == {f"{SITE}/"}
    assert f"{SITE}/install.html" in lostfound("links", f"{SITE}/", "--out").out


def test_links_of_a_sweep(lostfound: Lostfound, sample_state: Path) -> None:
    sources = [
        {row["source"] for row in lostfound("links", f"{SITE}/faq.html", "--sweep", sweep, "--json").rows}
        for sweep in SWEEPS
    ]
    assert [len(urls) for urls in sources] == [14, 14, 14]
    assert f"{SITE}/guide/calibration.html" in sources[0] - sources[1]
    result = lostfound("links", SITE, "--sweep", "nix")
    assert result.code == 2
    assert "sweep 'nix' does not exist" in result.err
    assert "lostfound sweep list" in result.err


def test_a_url_without_links_has_exit_code_1(lostfound: Lostfound, sample_state: Path) -> None:
    for direction in ("--in", "--out"):
        result = lostfound("links", f"{SITE}/nix", direction)
        assert (result.code, result.out) == (1, "")
        assert f"no links {'to' if direction == '--in' else 'from'} {SITE}/nix are stored" in result.err
        assert lostfound("links", f"{SITE}/nix", direction, "--json").out == ""
    assert lostfound("links", "ftp://x").code == 2


def ingest(lostfound: Lostfound, path: Path, sweep: str, bodies: dict[str, str], time: int, *options: object) -> None:
    lines = [html(url, body + " Some words of a page.", time) for url, body in bodies.items()]
    assert lostfound("ingest", jsonl(path, lines), "--sweep", sweep, *options).code == 0


def test_a_link_ends_when_its_page_no_longer_has_it_and_may_come_back(lostfound: Lostfound, tmp_path: Path) -> None:
    bodies = [f"<a href={C}>One</a>", f"<a href={C}>Two</a>", f"<a href={C}>One</a><a href={B} rel=nofollow>B</a>"]
    for number, body in enumerate(bodies, 1):
        ingest(lostfound, tmp_path / "p.jsonl", str(number), {A: body}, 1_700_000_000_000 + 1000 * number)
    rows = lostfound("links", C, "--json").rows
    assert [(row["anchor"], row["first_sweep"], row["last_sweep"]) for row in rows] == [
        ("One", "1", "3"),
        ("Two", "2", "2"),
    ]
    (nofollow,) = lostfound("links", B, "--json").rows
    assert nofollow["nofollow"]
    assert "nofollow" in lostfound("links", B).out
    assert lostfound("state", "check").code == 0
    assert lostfound("sweep", "cancel", "3").code == 0
    assert lostfound("links", B).code == 1
    assert [row["last_sweep"] for row in lostfound("links", C, "--json").rows] == ["1", "2"]
    assert lostfound("forget", A).code == 0
    assert lostfound("links", C).code == 1
    assert lostfound("state", "check").code == 0


def test_anchors_are_escaped_in_tables(lostfound: Lostfound, tmp_path: Path) -> None:
    ingest(lostfound, tmp_path / "p.jsonl", "1", {A: f"<a href={C}>\x1b[31mred</a>"}, 1_700_000_000_000)
    assert "\x1b" not in lostfound("links", C).out


def test_a_setting_keeps_only_targets_or_no_links(lostfound: Lostfound, tmp_path: Path) -> None:
    for choice, anchors in (("targets", [""]), ("off", []), ("anchors", ["text"])):
        config = tmp_path / f"{choice}.toml"
        config.write_text(f'[policy]\nkeep_links = "{choice}"\n')
        common = ("--config", config, "--data-dir", tmp_path / choice)
        ingest(lostfound, tmp_path / "p.jsonl", "1", {A: f"<a href={C}>text</a>"}, 1_700_000_000_000, *common)
        assert [row["anchor"] for row in lostfound("links", C, "--json", *common).rows] == anchors
        stats = lostfound("state", "stats", "--json", *common).rows[0]["families"]
        keys = {row["family"]: row["keys_estimated"] for row in stats if row["family"].startswith("link")}
        assert all(keys.values()) is bool(anchors)


def test_a_redirect_by_script_is_kept_although_the_page_has_no_text(lostfound: Lostfound, tmp_path: Path) -> None:
    lines = [html(A, f"<script>location.href = '{C}'</script>"), html(B, "<script>1</script>")]
    result = lostfound("ingest", jsonl(tmp_path / "p.jsonl", lines), "--sweep", "1", "--json")
    assert result.rows[0]["rejected"] == {"no_text": 2}
    (row,) = lostfound("links", C, "--json").rows
    assert (row["source"], row["kind"]) == (A, "script")


def test_the_context_of_a_link_comes_from_the_stored_text(lostfound: Lostfound, tmp_path: Path) -> None:
    body = f"<p>Read the <a href={C}>manual</a> of the station.</p><nav><a href={B}>manual</a></nav>"
    ingest(lostfound, tmp_path / "p.jsonl", "1", {A: body}, 1_700_000_000_000)
    contexts = {row["target"]: row["context"] for row in lostfound("links", A, "--out", "--json").rows}
    assert contexts == {C: ["Read the", "of the station."], B: ["", ""]}
    (row,) = lostfound("links", C, "--json").rows
    assert row["context"] == ["Read the", "of the station."]
    config = tmp_path / "no_texts.toml"
    config.write_text("[policy]\nkeep_texts = false\n")
    common = ("--config", config, "--data-dir", tmp_path / "no_texts")
    ingest(lostfound, tmp_path / "p.jsonl", "1", {A: body}, 1_700_000_000_000, *common)
    (row,) = lostfound("links", C, "--json", *common).rows
    assert row["context"] == ["", ""]
