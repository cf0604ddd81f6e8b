"""`lostfound clusters`, `cluster`, `similar` and `captures`."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from streams.cli import commands_query
from tests.streams.cli.conftest import SAMPLE, SITE, SWEEPS, Lostfound

FAQ, FAQ_MIRROR = f"{SITE}/faq.html", f"{SITE}/mirror/faq.html"


def test_members_are_compared_with_the_given_document(lostfound: Lostfound, sample_state: Path) -> None:
    (row,) = lostfound("cluster", FAQ, "--json").rows
    assert {FAQ, FAQ_MIRROR} <= set(row["urls"])
    assert row["asked"] in row["documents"]
    first, *others = row["members"]
    assert (first["document"], first["resemblance"]) == (row["asked"], 1.0)
    assert others
    assert all(0.6 < member["resemblance"] < 1 for member in others)
    assert lostfound("cluster", row["asked"][:12], "--json").rows == [row]
    assert FAQ_MIRROR in lostfound("cluster", FAQ).out


def test_a_stricter_policy_makes_smaller_clusters(lostfound: Lostfound, sample_state: Path) -> None:
    (default,) = lostfound("cluster", FAQ, "--json").rows
    (strict,) = lostfound("cluster", FAQ, "--threshold", "0.99", "--json").rows
    assert len(strict["documents"]) < len(default["documents"])
    (first,) = lostfound("cluster", FAQ, "--sweep", "2024-05", "--json").rows
    assert set(first["urls"]) == {FAQ, FAQ_MIRROR}
    assert len(lostfound("clusters", "--threshold", "0.99", "--json").rows) < len(
        lostfound("clusters", "--json").rows
    )


def test_containment_joins_more_pairs_only_above_the_threshold_of_the_ingest(
    lostfound: Lostfound, tmp_path: Path
) -> None:
    text = [f"word{n}" for n in range(100)]
    pages = {"short": text, "longer": [*text, *(f"more{n}" for n in range(25))]}
    lines = [{"url": f"{SITE}/{n}", "fetch_time": 5_000, "text": " ".join(words)} for n, words in pages.items()]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert lostfound("ingest", tmp_path / "pages.jsonl", "--sweep", "one").code == 0
    assert lostfound("clusters", "--threshold", "0.9").code == 1
    contained = lostfound("clusters", "--threshold", "0.9", "--containment", "--json")
    assert [row["url_count"] for row in contained.rows] == [2]
    assert contained.err == ""
    for command in (("clusters",), ("cluster", f"{SITE}/short")):
        default = lostfound(*command, "--json")
        contained = lostfound(*command, "--containment", "--json")
        assert default.out == contained.out
        assert default.err == ""
        assert contained.err.startswith("--containment has no effect at threshold 0.7")


def test_clusters_are_listed_largest_first(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("clusters", "--json").rows
    sizes = [max(len(row["documents"]), len(row["urls"])) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert any({FAQ, FAQ_MIRROR} <= set(row["urls"]) for row in rows)
    assert len(lostfound("clusters", "--json", "--limit", "2").rows) == 2
    assert len(lostfound("clusters", "--json", "--min-size", "1", "--min-urls", "1").rows) > len(rows)
    assert "Questions" in lostfound("clusters").out


def test_a_truncated_table_says_so(lostfound: Lostfound, sample_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(lostfound("clusters", "--json").rows)
    assert lostfound("clusters").err == ""
    monkeypatch.setattr(commands_query, "TABLE_ROWS_MAX", count - 1)
    assert f"only the {count - 1} largest clusters are shown" in lostfound("clusters").err
    assert lostfound("clusters", "--limit", count - 1).err == ""


def test_clusters_without_a_result_has_exit_code_1(lostfound: Lostfound, sample_state: Path) -> None:
    result = lostfound("clusters", "--min-size", "50")
    assert (result.code, result.out) == (1, "")


def test_the_minimum_threshold_is_that_of_the_ingest_and_not_of_the_settings(
    lostfound: Lostfound, tmp_path: Path
) -> None:
    low, high = tmp_path / "low.toml", tmp_path / "high.toml"
    low.write_text("[policy]\nthreshold = 0.5\n")
    high.write_text("[policy]\nthreshold = 0.9\n")
    for n, config in enumerate((low, high, low)):
        ingested = lostfound("ingest", SAMPLE / f"{SWEEPS[n]}.jsonl", "--sweep", SWEEPS[n], "--config", config)
        assert ("different thresholds" in ingested.err) is (n > 0)
        minimum = (0.5, 0.9, 0.9)[n]
        for query_config in (low, high):
            assert lostfound("clusters", "--threshold", minimum, "--config", query_config).code < 2
            refused = lostfound("clusters", "--threshold", minimum - 0.1, "--config", query_config)
            assert refused.code == 2
            assert f"is below {minimum}, the threshold used at ingest" in refused.err


def test_a_threshold_below_the_stored_edges_or_an_unknown_sweep_is_refused(
    lostfound: Lostfound, sample_state: Path
) -> None:
    result = lostfound("clusters", "--threshold", "0.2")
    assert result.code == 2
    assert "below" in result.err
    assert lostfound("clusters", "--sweep", "2030").code == 2
    assert lostfound("cluster", f"{SITE}/radio/packet.html", "--sweep", "2025-09").code == 1


def test_a_url_stands_for_its_last_document(lostfound: Lostfound, sample_state: Path) -> None:
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


def test_similar_without_a_result_has_exit_code_1(lostfound: Lostfound, sample_state: Path, tmp_path: Path) -> None:
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


def test_captures_have_resemblances_and_redirects(lostfound: Lostfound, sample_state: Path) -> None:
    rows = lostfound("captures", f"{SITE}/install.html", "--json").rows
    assert [row["sweep"] for row in rows] == list(SWEEPS)
    assert rows[0]["resemblance"] is None
    assert 0.7 < rows[1]["resemblance"] < 1
    assert rows[2]["resemblance"] == 1.0
    assert "unchanged" in lostfound("captures", f"{SITE}/install.html").out
    (redirect, _) = lostfound("captures", f"{SITE}/setup.html", "--json").rows
    assert (redirect["status"], redirect["redirect"]) == (301, f"{SITE}/install.html")


def test_an_invalid_url_is_an_error(lostfound: Lostfound, sample_state: Path) -> None:
    assert lostfound("captures", "ftp://a.example/").code == 2


def test_brackets_in_pages_are_not_markup(lostfound: Lostfound, tmp_path: Path) -> None:
    lines = [
        {"url": "https://a.example/x", "fetch_time": 5_000, "title": "[/b] :bug:", "text": "some words " * 20},
        {
            "url": "https://a.example/y",
            "fetch_time": 5_000,
            "status": 301,
            "redirect": "https://a.example/q?[/b]=:x:",
        },
    ]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert lostfound("ingest", tmp_path / "pages.jsonl", "--sweep", "[/sweep]").code == 0
    assert "[/sweep]" in lostfound("sweep", "list").out
    assert "q?[/b]=:x:" in lostfound("captures", "https://a.example/y").out
    assert "[/b] :bug:" in lostfound("clusters", "--min-size", "1", "--min-urls", "1").out
    assert "https://a.example/x" in lostfound("find", "https://a.example/x").out


def test_versions_of_a_single_page_are_listed_only_on_request(lostfound: Lostfound, sample_state: Path) -> None:
    several = lostfound("clusters", "--json").rows
    everything = lostfound("clusters", "--min-urls", "1", "--json").rows
    assert all(row["url_count"] > 1 for row in several)
    assert [row for row in everything if row["url_count"] > 1] == several
    assert len(everything) > len(several)
    strict = lostfound("clusters", "--threshold", "0.8", "--json").rows
    assert strict
    assert all(row["url_count"] > 1 for row in strict)
    assert "--min-urls 1" in lostfound("clusters", "--sweep", "2023-03", "--threshold", "0.99").err


def test_json_has_members_and_pairs_so_that_copies_can_be_told_apart(lostfound: Lostfound, tmp_path: Path) -> None:
    text = [f"word{n}" for n in range(100)]
    pages = {"one": text, "copy": text, "near": [*text, "more", "words"]}
    lines = [{"url": f"{SITE}/{n}", "fetch_time": 5_000, "text": " ".join(words)} for n, words in pages.items()]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert lostfound("ingest", tmp_path / "pages.jsonl", "--sweep", "one").code == 0
    (cluster,) = lostfound("clusters", "--json").rows
    urls = {tuple(member["urls"]) for member in cluster["members"]}
    assert urls == {(f"{SITE}/copy", f"{SITE}/one"), (f"{SITE}/near",)}
    (pair,) = cluster["pairs"]
    assert {pair["a"], pair["b"]} == set(cluster["documents"])
    assert pair["resemblance"] == pytest.approx(97 / 99, abs=0.001)
    near = next(row for row in cluster["members"] if row["document"] != cluster["cluster"])
    assert near["resemblance"] == pytest.approx(pair["resemblance"], abs=0.001)
    (strict,) = lostfound("clusters", "--threshold", "0.99", "--json").rows
    assert (strict["url_count"], strict["pairs"]) == (2, [])


def test_duplicates_are_listed_as_csv_and_json(lostfound: Lostfound, sample_state: Path) -> None:
    rows = list(csv.DictReader(lostfound("duplicates").out.splitlines()))
    objects = lostfound("duplicates", "--format", "jsonl").rows
    assert [list(map(str, row.values())) for row in objects] == [list(row.values()) for row in rows]
    faq = next(row for row in objects if row["url"] == FAQ_MIRROR)
    assert (faq["representative"], faq["kind"]) == (FAQ, "near")
    assert 0.7 < faq["resemblance"] < faq["contained"] < faq["containment"] < 1
    everything = lostfound("duplicates", "--all", "--format", "jsonl").rows
    assert [row for row in everything if row["kind"] != "representative"] == objects
    assert len({row["url"] for row in everything}) == len(everything) > len(objects)


def test_duplicates_without_a_result_have_exit_code_1_and_a_header(lostfound: Lostfound, tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text(json.dumps({"url": FAQ, "fetch_time": 5_000, "text": "words " * 9}) + "\n")
    assert lostfound("ingest", tmp_path / "pages.jsonl", "--sweep", "one").code == 0
    result = lostfound("duplicates")
    assert (result.code, len(result.out.splitlines())) == (1, 1)
    assert result.err.endswith("no URL is a duplicate of another\n")
    assert len(lostfound("duplicates", "--all").out.splitlines()) == 2
