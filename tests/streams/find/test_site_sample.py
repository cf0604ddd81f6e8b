"""Samples of large sites."""

from __future__ import annotations

from streams.find import site_sample
from streams.find.site_sample import sample_site
from streams.urls import host_prefix, url_key

SITE = "https://site.example"


def test_a_large_site_is_sampled_in_all_its_folders(view, monkeypatch):
    """Files at the root do not end the walk over the folders."""
    root = {f"{SITE}/{n:03}.html": "x y" for n in range(40)}
    view.add({**root, **{f"{SITE}/{name}/{n}": f"{name} {n}" for name in "abc" for n in range(40)}})
    monkeypatch.setattr(site_sample, "_SCAN_CAPTURES_MAX", 16)
    monkeypatch.setattr(site_sample, "_DIRECTORY_CAPTURES", 16)
    sample = sample_site(view, host_prefix(url_key(SITE)), 8, 1)
    urls = sample_site(view, host_prefix(url_key(SITE)), 64, 1)
    assert len(sample) >= 8
    assert {captures[0].url.split("/")[3] for captures in urls} >= {"a", "b", "c"}


def test_a_large_site_is_sampled_over_its_folders(view):
    view.add({f"{SITE}/{folder:02}/{n:03}": f"page {folder} {n}" for folder in range(50) for n in range(100)})
    chosen = sample_site(view, host_prefix(url_key(SITE)), 400, 1)
    folders = {captures[0].key.split(b"/")[1] for captures in chosen}
    assert len(chosen) == 400
    assert len(folders) > 40


def test_a_site_with_many_sweeps_is_sampled_like_one_with_few(view):
    pages = {f"{SITE}/{folder:02}/{n}": f"page {folder} {n}" for folder in range(50) for n in range(3)}
    for _ in range(30):
        view.add(pages)
    chosen = sample_site(view, host_prefix(url_key(SITE)), 40, 30)
    assert len(chosen) == 40
    assert all(len(captures) == 30 for captures in chosen)


def test_most_urls_of_a_sample_are_in_the_last_sweep(view):
    view.add({f"{SITE}/old/{n}": f"old {n}" for n in range(90)}).add({f"{SITE}/new/{n}": f"n {n}" for n in range(30)})
    chosen = sample_site(view, host_prefix(url_key(SITE)), 20, 2)
    assert sum(captures[-1].sweep == 2 for captures in chosen) >= 15


def test_an_unknown_host_has_an_empty_sample(view):
    assert sample_site(view, b"e,x)", 10, 1) == []
