"""`lostfound cluster`: one cluster and its members."""

from __future__ import annotations

import json
from pathlib import Path

from tests.streams.cli.conftest import SITE, Lostfound

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
