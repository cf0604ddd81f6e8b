"""Every benchmark runs, on little; none of these tests says how fast anything is."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import engine, exact, export, links, recovery, recrawl
from bench.generator import Shape
from bench.measure import in_child
from state.scheme import Scheme

SCHEME = msgspec.to_builtins(Scheme())
SMALL: dict[str, Any] = {"shape": {"near_share": 0.5, "pages_per_cluster": 50}, "documents": 200}


@pytest.mark.parametrize("peer", ["rensa", "rensa_matrix", "gaoya", "datasketch", "datasketch_redis"])
def test_peers_find_near_copies(peer: str) -> None:
    pytest.importorskip(peer.partition("_")[0], reason="peers are installed by `make bench`")
    if peer.endswith("redis"):
        pytest.importorskip("redis", reason="installed by `make bench`")
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not installed; `make bench` installs it")
    figures = in_child(f"bench.peers:{peer}", scheme=SCHEME, threshold=0.7, **SMALL)
    assert figures["pairs"] > 0
    assert figures["documents_per_second"] > 0


def test_peers_get_the_shingles_of_our_own_tokeniser() -> None:
    from bench.generator import texts
    from bench.peers import shingles_of
    from streams.sketch.sketcher import Sketcher

    sketcher = Sketcher(Scheme())
    for text in texts(Shape(), 0, 20):
        words = sketcher.canonical_text(text).split(" ")
        ours = {" ".join(words[i : i + 4]) for i in range(len(words) - 3)}
        assert set(shingles_of(text, 4)) == ours


def test_the_engine_is_measured_over_sweeps() -> None:
    figures = engine.clusters(sweeps=2, **SMALL)
    first, second = figures["sweeps"]
    assert first["new"] > 100
    assert (second["new"], second["unchanged"]) == (0, 200)
    assert figures["near"] > 0


def test_the_export_is_measured_per_table() -> None:
    figures = export.measure(captures=2_000)
    assert figures["rows"] == {"captures": 2_000, "links": 30_000, "hosts": 4, "documents": 1_000, "clusters": 1_000}
    assert all(seconds > 0 for seconds in figures["cpu_seconds"].values())


def test_links_are_measured_on_pages_and_on_files() -> None:
    figures = links.measure(documents=50, rounds=1)
    assert list(figures) == ["targets", "anchors"]
    assert 0 < figures["targets"]["bytes_per_link"] < figures["anchors"]["bytes_per_link"] < 400
    assert figures["targets"]["links"] == figures["anchors"]["links"] > 1_000
    sample = Path(__file__).parents[2] / "streams" / "demo" / "sample" / "2025-09.jsonl"
    figures_of_file = links.ingest_with_links("anchors", 50, [str(sample)])
    assert figures_of_file["links"] == 15 * 5 - 5  # five pages link to themselves


def test_recovery_is_measured_from_a_changelog_and_from_a_snapshot() -> None:
    figures = recovery.recovery(50, words=60)
    assert figures["changelog_records"] > 0
    assert figures["snapshot_bytes"] > 0
    assert all(figures[name]["seconds"] > 0 for name in ("replay", "take", "restore"))


def test_html_is_compared_with_the_parser() -> None:
    figures = engine.html_pages(50, {})
    assert 0 < figures["parser"]["cpu_seconds"] < figures["cpu_seconds"]


def test_edges_are_compared_with_exact_sets() -> None:
    figures = exact.compare_with_exact(300)
    assert figures["pairs"] > 0
    assert figures["joined"] > 0.9


def test_a_failing_child_reports_the_reason() -> None:
    with pytest.raises(RuntimeError, match="no_such_thing"):
        in_child("bench.engine:no_such_thing")


def test_a_recrawl_lists_the_urls_that_it_lacks() -> None:
    recrawled = list(recrawl.recrawl(Shape(), 3000, 2))
    gone = [url for url, page in recrawled if page is None]
    moved = [url for url, page in recrawled if page is not None and page.url != url]
    assert 0.01 * len(recrawled) < len(gone) < len(moved) < 0.25 * len(recrawled)


@pytest.mark.long
def test_growth_is_sampled_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="installed by `make bench`")
    from bench import scale

    monkeypatch.setattr(scale, "FOLDER", tmp_path / "out")
    monkeypatch.setattr(scale, "SAMPLES", tmp_path / "out" / "samples.jsonl")
    for documents in (400, 800):
        arguments = ["scale", "--documents", str(documents), "--chunk", "400", "--data-dir", str(tmp_path / "data")]
        monkeypatch.setattr(sys, "argv", arguments)
        scale.main()
    samples = [json.loads(line) for line in scale.SAMPLES.read_text().splitlines()]
    assert [sample["documents"] for sample in samples] == [400, 800]
    assert samples[-1]["checkpoint"]["similar_p99_ms"] > 0
    assert samples[-1]["checkpoint"]["find_asked"] > 0
    assert (tmp_path / "out" / "scale.png").stat().st_size > 10_000


def test_parts_and_wholes_are_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from bench import parts

    monkeypatch.setattr(sys, "argv", ["parts", "--documents", "300"])
    parts.main()
    head, first, *others = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["1", "in"]
    assert len(others) == len(parts.RATIOS) - 1
    assert min(map(float, first.split()[1:])) > 0.9


def test_of_several_rounds_the_middle_one_is_shown() -> None:
    from bench import run

    ratios = iter([4.0, 1.0, 5.0, 3.0, 6.0, 2.0])  # two rows a round

    def compared(documents: int) -> Iterator[run.Row]:
        for what in ("one", "other"):
            yield run.Row("group", what, next(ratios), None, None, f"of {documents}")

    rows = list(run.median_rounds(compared, 7, rounds=3))
    assert [(row.what, row.ratio, row.note) for row in rows] == [("one", 5.0, "of 7"), ("other", 2.0, "of 7")]


def test_the_table_of_ratios() -> None:
    from bench import run

    figures = {"documents_per_second": 10.0, "cpu_us_per_document": 5.0, "cpu_seconds": 1.0, "page_bytes": 1000}
    row = run._faster("group", "what", figures, {**figures, "documents_per_second": 5.0}, 3.0, "")
    assert (row.ratio, row.met) == (2.0, False)
    assert run.table([row]).row_count == 2


def test_replicas_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two versions of three pages, and one that was renamed on the way."""
    import zstandard

    from bench.replicas import clusters

    text = {name: " ".join(f"{name}{n}" for n in range(200)) for name in ("intro", "usage", "faq")}
    bodies = {
        **{f"https://site.example/docs/v1/{name}.html": body for name, body in text.items()},
        **{f"https://site.example/docs/v2/{name}.html": f"{body} and one more" for name, body in text.items()},
        "https://site.example/docs/v2/questions.html": text["faq"] + " or two",
    }
    lines = [{"url": url, "fetched_at": "2024-01-01T00:00:00Z", "text": body} for url, body in bodies.items()]
    (tmp_path / "pages.jsonl.zst").write_bytes(
        zstandard.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["clusters", str(tmp_path)])
        assert clusters.main() == 0
    shown = capsys.readouterr().out
    assert "| pages, trees | 7, 2 |" in shown
    assert "| clusters of two or more documents | 3 |" in shown
    assert "| of these with pages of a single path | 2 |" in shown
    assert "| v1 | v2 |" not in shown, "trees that share few paths are not listed"
    assert "faq.html, questions.html" in shown
    assert "nothing → `and one more`" in shown


def test_a_folder_without_pages_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from bench.replicas import clusters

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["clusters", str(tmp_path)])
        assert clusters.main() == 2
    assert "not a set of replicas" in capsys.readouterr().err
