"""Tests of streams/analyses/current_pages.py."""

from __future__ import annotations

import pytest

from tests.analysis_data import host_hash, open_data_set, page, page_hash, prose, write_data_set

SITE = "https://example.org"
PAGES = [
    page(f"{SITE}/", prose("home")),
    page(f"{SITE}/gone", prose("gone")),
    page(f"{SITE}/a%41", prose("a")),
    page("https://other.example/", prose("other")),
    page(f"{SITE}/index.html", prose("home", "new"), sweep=2),
    page(f"{SITE}/aA", status=404, sweep=2),
    page(f"{SITE}/broken", prose("broken"), sweep=2, time=1),
    page(f"{SITE}/broken", status=503, sweep=2, time=2),
    page(f"{SITE}/later", prose("later"), sweep=3),
]


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("seed", [0, 1])
def test_pages_are_those_of_the_newest_sweep_of_their_host(tmp_path, parts, seed):
    with open_data_set(write_data_set(tmp_path, PAGES, parts=parts, seed=seed), sweep=2) as engine:
        rows = engine.rows("SELECT page, host, status, document IS NULL FROM pages ORDER BY page")
    expected = [
        (f"{SITE}/", 200, False),
        (f"{SITE}/aA", 404, True),
        (f"{SITE}/broken", 200, False),
        ("https://other.example/", 200, False),
    ]
    assert rows == sorted((page_hash(url), host_hash(url), status, empty) for url, status, empty in expected)


def test_similar_documents_have_one_cluster(tmp_path):
    text = prose("long", words=300)
    pages = [page(f"{SITE}/a", text), page(f"{SITE}/b", f"{text} more"), page(f"{SITE}/c", prose("unrelated"))]
    with open_data_set(write_data_set(tmp_path, pages)) as engine:
        assert sorted(engine.rows("SELECT count(*) FROM pages GROUP BY cluster")) == [(1,), (2,)]
        assert engine.rows("SELECT sum(captures) FROM hosts") == [(3,)]
