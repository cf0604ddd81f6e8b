"""Tests of streams/analyses/avoid/."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streams.analyses.avoid.avoid_list import Entry, deciding_entry
from streams.analyses.avoid.check_avoid import check_avoid
from streams.analyses.avoid.compute_avoid import compute_avoid
from streams.analyses.collections.compute_collections import compute
from tests.analysis_data import Page, open_data_set, page, prose, write_data_set
from tests.streams.analyses.sites import manual, unrelated

A, B, C = "https://a.example/", "https://b.example/docs/", "http://c.example:8080/pub/m/"


def avoid_list(folder: Path, pages: Iterable[Page], *, pure: float = 0.8, sample: float = 0.0) -> list[Entry]:
    with open_data_set(write_data_set(folder, list(pages))) as engine:
        compute(engine, clusters_min=10, urls_max=3)
        return compute_avoid(engine, copied_share_min=pure, sample_share=sample)


def decisions(entries: Iterable[Entry]) -> list[tuple[str, bool, int, int]]:
    return [(entry.prefix, entry.keep, entry.pages, entry.lost) for entry in entries]


def test_all_copies_but_one_are_skipped(tmp_path):
    pages = [*manual(A, without=[3]), *manual(B), *manual(C, without=[4])]
    entries = avoid_list(tmp_path, pages)
    assert decisions(entries) == [(C, False, 16, 0), (A, False, 16, 0)]
    assert {entry.kept_prefix for entry in entries} == {B}


def test_nothing_above_the_root_of_a_collection_is_skipped(tmp_path):
    """The copy has 17 of 19 pages below /docs/, and 17 of 37 on the host."""
    pages = [*manual(A), *manual(B + "v1/", without=[1]), page(B, prose("b")), page(B + "x.html", prose("x"))]
    pages += unrelated("https://b.example/blog/")
    assert decisions(avoid_list(tmp_path, pages)) == [(B + "v1/", False, 16, 0)]


def test_directories_without_copies_are_exceptions_and_their_copies_are_skipped_again(tmp_path):
    extra = [page(B + f"own/{n}.html", prose("own", n), links=[B + "index.html"]) for n in range(4)]
    mixed = [*manual(A + "own/x/", name="second", pages=12), *manual(B + "own/x/", name="second", pages=12)]
    plugin = [page(B + f"own/y/{n}.html", prose("y", n)) for n in range(20)]
    entries = avoid_list(
        tmp_path, [*manual(A, pages=250), *manual(B, pages=250, without=[0]), *extra, *mixed, *plugin]
    )
    assert decisions(entries) == [
        (B, False, 250, 0),
        (B + "own/", True, 24, 0),
        (B + "own/x/", False, 13, 0),
    ]


def test_a_kept_copy_inside_a_skipped_one_stays_on_the_list(tmp_path):
    pages = [*manual(A + "docs/", pages=60, without=[1, 2]), *manual(A + "docs/latest/", pages=60, edition="new")]
    pages += manual(B, pages=60, edition="new", without=[3])
    entries = {entry.prefix: entry for entry in avoid_list(tmp_path, pages, pure=0.4)}
    assert entries[A + "docs/"].keep is False
    assert entries[A + "docs/latest/"].keep is True
    assert deciding_entry(A + "docs/latest/5.html", entries) is entries[A + "docs/latest/"]
    assert deciding_entry(A + "other.html", entries) is None


def test_a_second_collection_is_kept_for_copies_that_the_first_does_not_cover(tmp_path):
    """The largest copy has half of the pages of two others, which have all of their pages in common."""
    early, late = range(30), range(15, 60)
    pages = [*manual(A, pages=60, without=early)]
    pages += [*manual(B, pages=60, without=late)]
    pages += [*manual(C, pages=60, without=late)]
    pages += [*manual("https://d.example/", pages=60, without=[*range(15), *range(45, 60)])]
    pages += [*manual("https://e.example/", pages=60, without=range(20, 60))]
    entries = avoid_list(tmp_path, pages)
    instead = {entry.prefix: entry.kept_prefix for entry in entries}
    assert A not in instead
    for prefix in set(instead.values()):
        assert prefix not in instead  # a kept copy is never skipped


def test_a_sample_of_each_copy_stays_on_the_list(tmp_path):
    entries = avoid_list(tmp_path, [*manual(A, pages=60), *manual(B, pages=60, without=[1])], sample=0.05)
    assert [(entry.keep, entry.pages, entry.reason) for entry in entries] == [
        (False, 57, "copy"),
        *[(True, 1, "sample")] * 3,
    ]
    assert all(entry.prefix.startswith(B) for entry in entries)
    assert {entry.prefix.rpartition("/")[2] for entry in entries} & {"", "index.html"} == {""}


def test_without_collections_the_list_is_empty(tmp_path):
    assert avoid_list(tmp_path, unrelated(A)) == []


def test_a_later_sweep_shows_which_entries_no_longer_hold(tmp_path):
    """The crawler obeyed the list, and met a sample of each copy."""
    first = [
        *manual(A, pages=60, edition="1st"),
        *manual(B, pages=60, without=[1]),
        *manual(C, pages=60, without=[2]),
    ]
    first += manual("https://d.example/", pages=60, without=[3])
    entries = avoid_list(tmp_path / "1", first, sample=0.1)
    samples = {entry.prefix for entry in entries if entry.reason == "sample"}
    second = []
    for old in first:
        if old.url.startswith(A) or (old.url in samples and not old.url.startswith("https://d.example/")):
            text = prose("rewritten", old.url) if old.url.startswith(B) else old.text
            second.append(page(old.url, text, sweep=2, links=old.links))
    with open_data_set(write_data_set(tmp_path / "2", [*first, *second]), sweep=2) as engine:
        checked = check_avoid(engine, entries, copied_share_min=0.8)
    assert [(entry.prefix, entry.pages, entry.copies, entry.holds) for entry in checked] == [
        (C, 6, 6, True),
        (B, 6, 0, False),
        ("https://d.example/", 60, 60, True),  # not visited by the second sweep
    ]


def test_an_entry_fails_if_the_copy_that_was_kept_has_vanished(tmp_path):
    first = [*manual(A, pages=60), *manual(B, pages=60, without=[1])]
    entries = avoid_list(tmp_path / "1", first, sample=0.1)
    second = [page(old.url, old.text, sweep=2) for old in first if old.url.startswith(B)]
    gone = [page(old.url, sweep=2, status=404) for old in first if old.url.startswith(A)]
    with open_data_set(write_data_set(tmp_path / "2", [*first, *second, *gone]), sweep=2) as engine:
        assert [entry.holds for entry in check_avoid(engine, entries, copied_share_min=0.8)] == [False]
