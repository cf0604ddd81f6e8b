"""Every broken invariant of the rows of links is reported, at the row that is wrong."""

from __future__ import annotations

import pytest

from state.changes import Changes
from state.check import Problem, check
from state.codecs import link_chunk, link_list
from state.families import Family
from tests.memory import MemoryStore

SHORT = link_chunk.CHUNK_ID_BYTES  # the length of the keys of chunks; those of pages are longer


def problems(store: MemoryStore) -> list[Problem]:
    return list(check(store, postings_max=32))


def chunk_keys(store: MemoryStore, *, of_pages: bool) -> list[bytes]:
    return [key for key, _ in store.scan(Family.LINK_CHUNKS) if (len(key) > SHORT) is of_pages]


def without(store: MemoryStore, family: Family, key: bytes) -> list[Problem]:
    """Delete a row, and return the problems of the state."""
    changes = Changes()
    changes.delete(family, key)
    store.write(changes)
    return problems(store)


def test_the_sound_state_has_links(sound: MemoryStore) -> None:
    assert chunk_keys(sound, of_pages=False)
    assert len(chunk_keys(sound, of_pages=True)) > len(chunk_keys(sound, of_pages=False)), "pages share chunks"
    assert problems(sound) == []


def test_a_capture_without_its_list_is_reported(sound: MemoryStore) -> None:
    key, _ = next(sound.scan(Family.LINK_LISTS))
    reported = without(sound, Family.LINK_LISTS, key)
    assert {problem.family for problem in reported} == {"captures", "link_chunks"}
    assert any(link_list.decode_key(key)[1].hex() in problem.description for problem in reported)


def test_a_list_without_a_capture_is_reported(sound: MemoryStore) -> None:
    key, value = next(sound.scan(Family.LINK_LISTS))
    changes = Changes()
    other_key = link_list.encode_key(link_list.decode_key(key)[0], b"8 bytes.")
    changes.put(Family.LINK_LISTS, other_key, value)
    sound.write(changes)
    assert problems(sound) == [Problem("link_lists", other_key.hex(), "no capture of the URL refers to this list")]


def test_a_missing_chunk_is_reported_by_its_lists(sound: MemoryStore) -> None:
    (key, *_) = chunk_keys(sound, of_pages=False)
    reported = without(sound, Family.LINK_CHUNKS, key)
    assert {"link_lists", "link_targets"} <= {problem.family for problem in reported}


def test_a_chunk_that_does_not_name_its_page_is_reported(sound: MemoryStore) -> None:
    (key, *_) = chunk_keys(sound, of_pages=True)
    reported = without(sound, Family.LINK_CHUNKS, key)
    assert {problem.description for problem in reported} >= {f"chunk {key[:SHORT].hex()} has no row for this page"}


def test_a_chunk_without_pages_is_reported(sound: MemoryStore) -> None:
    changes, value = Changes(), link_chunk.encode([])
    changes.put(Family.LINK_CHUNKS, link_chunk.compute_chunk_id(value), value)
    sound.write(changes)
    key = link_chunk.compute_chunk_id(value).hex()
    assert problems(sound) == [Problem("link_chunks", key, "no page contains this chunk")]


def test_changed_links_are_reported(sound: MemoryStore) -> None:
    key = chunk_keys(sound, of_pages=False)[0]
    links = link_chunk.decode(sound.get(Family.LINK_CHUNKS, key) or b"")
    changes = Changes()
    changes.put(Family.LINK_CHUNKS, key, link_chunk.encode(links[:-1]))
    sound.write(changes)
    reported = [problem for problem in problems(sound) if problem.family == "link_chunks"]
    assert [(problem.key, problem.description) for problem in reported] == [
        (key.hex(), "its id is not the hash of its links")
    ]


def test_a_missing_entry_of_a_target_is_reported(sound: MemoryStore) -> None:
    key, _ = next(sound.scan(Family.LINK_TARGETS))
    (reported, *_) = without(sound, Family.LINK_TARGETS, key)
    assert reported.description == f"the entry {key.hex()} of one of its targets is missing"


@pytest.mark.parametrize("prefix", [b"\xff" * 5, None])
def test_an_entry_without_a_link_is_reported(sound: MemoryStore, prefix: bytes | None) -> None:
    key = link_chunk.target_hash(b"org,nowhere)/") + (prefix or chunk_keys(sound, of_pages=False)[0][:5])
    changes = Changes()
    changes.put(Family.LINK_TARGETS, key)
    sound.write(changes)
    assert problems(sound) == [
        Problem("link_targets", key.hex(), "no chunk with this prefix links to a URL with this hash")
    ]
