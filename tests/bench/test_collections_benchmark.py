"""The benchmark of replicated collections, on small archives."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

import pytest

from bench.replicas import collections, javadocs
from bench.replicas.collection_scores import Member, TruePage, score, score_avoid
from streams.analyses.avoid.avoid_list import Entry
from streams.export.hashes import page_hash
from streams.urls import url_key
from tests.analysis_data import prose

PAGES = 30


def write_archive(path: Path, name: str) -> None:
    """Write a javadoc archive with an index and numbered pages, which link to each other."""
    with zipfile.ZipFile(path, "w") as jar:
        links = "".join(f'<a href="{n}.html">{n}</a> ' for n in range(PAGES))
        jar.writestr("index.html", f"<html><body>{prose(name, words=400)} {links}</body></html>")
        jar.writestr("style.css", "body {}")
        for n in range(PAGES):
            links = f'<a href="{(n + 1) % PAGES}.html">next</a> <a href="index.html">index</a>'
            jar.writestr(f"{n}.html", f"<html><body><nav>menu</nav>{prose(name, n, words=400)} {links}</body></html>")


def test_all_copies_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    targets, unrelated = {"g:one": ("1", "2"), "g:two": ("1", "2")}, {"g:three": ("1",)}
    monkeypatch.setattr(javadocs, "TARGETS", targets)
    monkeypatch.setattr(javadocs, "UNRELATED", unrelated)
    (tmp_path / "archives").mkdir()
    for artifact, versions in {**targets, **unrelated}.items():
        for version in versions:
            write_archive(javadocs.archive(tmp_path / "archives", artifact, version), artifact)
    arguments = ["collections", str(tmp_path), "--missing", "0.1", "--partial", "0.1"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert collections.main() == 0
    output = capsys.readouterr().out
    assert re.search(r"\| regions \| 2 of 2 \| 14 of 14 / [01] \| [01]\.\d+ \| 0 \|", output), output
    assert "folding 100 URLs" in output


def page(target: str, copy: int, number: int) -> TruePage:
    return TruePage(target, copy, f"https://host{copy}.example/{number}", is_crawled=True)


def member(page: TruePage, collection: int, class_id: int) -> Member:
    return Member(page_hash(url_key(page.url)), collection, class_id, cluster=0)


def test_scores_of_collections() -> None:
    one, two, other = ([page(target, copy, n) for n in range(10)] for target, copy in (("t", 1), ("t", 2), ("", 3)))
    truth = [*one, *two, *other]
    members = [
        *(member(p, 1, 1) for p in one),
        *(member(p, 2, 1) for p in two[:4]),
        *(member(p, 3, 1) for p in other),
    ]
    scores = score(members, truth)
    assert (scores.targets, scores.targets_found, scores.copies, scores.good) == (1, 0, 2, 2)
    assert (scores.problems, scores.target_pages, scores.unrelated_pages) == (1, 14 / 20, 10)
    complete = [*(member(p, 1, 1) for p in one), *(member(p, 2, 1) for p in two)]
    assert score(complete, truth)[:5] == (1, 1, 2, 2, 0)


def test_scores_of_an_avoid_list() -> None:
    """The list skips two copies of one page, a page without a copy, and an unrelated page."""
    pages = [page("t", 1, 0), page("t", 2, 0), page("t", 2, 1), page("", 2, 2)]
    clusters = {page_hash(url_key(p.url)): cluster for p, cluster in zip(pages, (1, 1, 2, 3), strict=True)}
    skip = Entry(
        prefix="https://host2.example/", keep=False, pages=3, lost=0, unconfirmed=0, kept_prefix="", reason="copy"
    )
    assert score_avoid([skip], pages, clusters) == (4, 3 / 4, 2 / 3, 1.0)
