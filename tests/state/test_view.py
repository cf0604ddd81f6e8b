"""The view of a small sound state."""

from __future__ import annotations

from pathlib import Path

import pytest

from state import sweeps
from state.codecs import edge_row
from state.families import Family
from state.model import SweepState
from state.store import Store
from state.view import View
from streams.urls import host_prefix, url_key
from tests.memory import MemoryStore
from tests.samples import NOW, begin_cancel, page, take
from tests.state.conftest import HOSTS


@pytest.fixture
def view(sound_store: Store) -> View:
    return View(sound_store)


def test_sweeps_and_their_hosts(view: View) -> None:
    assert [(s.number, s.name, s.state) for s in view.sweeps()] == [
        (1, "one", SweepState.COMMITTED),
        (2, "two", SweepState.COMMITTED),
        (3, "three", SweepState.OPEN),
    ]
    hosts = view.captures_per_host(1)
    assert set(hosts) == {host_prefix(url_key(host)) for host in HOSTS}
    assert sum(hosts.values()) == view.sweeps()[0].captures == 22
    for host, count in hosts.items():
        assert view.captures_on_host(1, host) == count
    assert view.captures_on_host(9, b"org,absent)") == 0


def test_captures_of_a_url_are_its_history(view: View) -> None:
    history = view.captures(url_key(f"{HOSTS[0]}/p0.html"))
    assert [(c.sweep, c.status, c.redirect is not None, c.document is not None) for c in history] == [
        (1, 200, False, True),
        (2, 301, True, False),
    ]
    assert history[0].url == f"{HOSTS[0]}/p0.html"
    assert history[0].time == NOW
    assert view.captures(url_key(f"{HOSTS[0]}/p")) == []
    assert view.histories([url_key(f"{HOSTS[0]}/p"), url_key(f"{HOSTS[0]}/p0.html")]) == [[], history]


def test_last_documents(view: View) -> None:
    keys = sorted({capture.key for capture in view.all_captures()})
    documents = [[capture.document for capture in history if capture.document] for history in view.histories(keys)]
    assert view.last_documents(keys) == [history[-1] if history else None for history in documents]
    assert any(len(history) > 1 for history in documents)
    assert view.last_documents([url_key(f"{HOSTS[0]}/p")]) == [None]


def test_urls_under_a_prefix(view: View) -> None:
    all_captures = list(view.all_captures())
    keys = [c.key for c in all_captures]
    assert keys == sorted(keys)
    prefix = url_key(f"{HOSTS[0]}/p")
    under = [c for c in all_captures if c.key.startswith(prefix)]
    urls = list(dict.fromkeys(c.key for c in under))
    assert view.url_keys_under(prefix, 1_000) == urls
    assert view.url_keys_under(prefix, 3) == list(dict.fromkeys(c.key for c in under[:3]))
    assert view.url_keys_under(prefix, 1_000, start=urls[1]) == urls[1:]
    assert view.url_keys_under_each([prefix, url_key(f"{HOSTS[0]}/absent"), prefix], 1_000) == urls
    assert view.url_keys_under_each([prefix], 3) == view.url_keys_under(prefix, 3)


def test_documents_by_id_and_prefix(view: View) -> None:
    ids = [key for key, _ in view.store.scan(Family.DOCUMENTS)]
    rows = [view.document(key) for key in ids]
    *results, none = view.documents([*ids, bytes(16)])
    assert [row.sketch.document for row in results if row] == ids
    assert none is None
    assert [row.sketch.document for row in rows if row] == ids
    assert view.document(bytes(16)) is None
    prefixes = [key[:5] for key in ids[::-1]]
    assert [row.sketch.document for row in view.documents_by_prefixes(prefixes)] == ids[::-1]
    assert [row.sketch.document for row in view.documents_by_prefixes([ids[3][:5]])] == [ids[3]]
    assert view.documents_by_prefixes([b"\xff" * 5, ids[0][:5]])[0].sketch.document == ids[0]


def test_locations_texts_and_titles(view: View) -> None:
    capture = view.captures(url_key(f"{HOSTS[0]}/p0.html"))[0]
    assert capture.document
    keys = [url_key(f"{HOSTS[0]}/new/p0.html"), url_key(f"{HOSTS[0]}/p0.html")]
    assert view.locations([capture.document, bytes(16)], 10) == [keys, []]
    assert view.locations([capture.document], 1) == [keys[:1]]
    (seen,) = view.locations_with_times([capture.document], 10)
    assert [key for key, _ in seen] == keys
    assert [time for _, time in seen] == [min(c.time for c in view.captures(key)) for key in keys]
    both, none = view.titles_and_texts([capture.document, bytes(16)])
    title, text = both or ("", "")
    assert none is None
    assert title == "Page 0"
    assert text == view.text(capture.document)
    assert text.startswith("word")
    assert view.text(bytes(16)) is None


def test_clusters_members_and_edges(view: View) -> None:
    parents = dict(view.store.scan(Family.PARENTS))
    assert parents
    for child in parents:
        root = view.root(child)
        assert root not in parents
        assert child in view.members(root)
        assert view.members(root)[0] == root
    edges = [edge_row.decode(key, value) for key, value in view.store.scan(Family.EDGES)]
    assert edges
    assert all(pair.a < pair.b and view.root(pair.a) == view.root(pair.b) for pair in edges)
    alone = next(key for key, _ in view.store.scan(Family.DOCUMENTS) if key not in parents)
    both = [*parents, alone, next(iter(parents))]
    assert view.roots(both) == [view.root(document) for document in both]
    assert view.root(alone) == alone


def test_postings(view: View) -> None:
    bucket, value = next(iter(view.store.scan(Family.BANDS)))
    assert view.bucket_postings([b"none", bucket]) == [[], [value[:5]]]
    sample, _ = next(iter(view.store.scan(Family.SAMPLES)))
    (results,) = view.sample_postings([int.from_bytes(sample[:4], "big")], 10)
    assert sample[4:] in results
    word, _ = next(iter(view.store.scan(Family.WORDS)))
    site_words = [(word[:4], int.from_bytes(word[4:8], "big")), (b"none", 7)]
    results, none = view.word_postings(site_words, 10)
    assert word[8:] in results
    assert none == []
    assert view.word_postings(site_words, 0) == [[], []]


def test_a_sweep_that_is_being_cancelled_is_hidden(sound: MemoryStore) -> None:
    sweep = sweeps.named(sound, "two")
    assert sweep
    begin_cancel(sound, sweep)
    view = View(sound)
    assert [s.name for s in view.sweeps()] == ["one", "three"]
    assert {c.sweep for c in view.all_captures()} == {1, 3}
    assert [c.sweep for c in view.captures(url_key(f"{HOSTS[0]}/p0.html"))] == [1]


def test_a_view_follows_the_writer_when_refreshed(tmp_path: Path) -> None:
    with Store(tmp_path / "state") as store:
        take(store, tmp_path / "1.jsonl", [page("https://a.org/", "one two three four", NOW)], "one")
        with Store(tmp_path / "state", writable=False) as reader:
            view = View(reader)
            take(store, tmp_path / "2.jsonl", [page("https://a.org/", "four five six seven", NOW + 1)], "two")
            assert [s.name for s in view.sweeps()] == ["one"]
            view.refresh()
            assert [s.name for s in view.sweeps()] == ["one", "two"]
            assert len(view.captures(url_key("https://a.org/"))) == 2
            assert view.captures_on_host(2, b"org,a)") == 1
