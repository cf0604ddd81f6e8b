"""Every invariant: a state that breaks it has a problem, and a sound state has none."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from state import analyses, meta, sweeps
from state.changes import Changes
from state.check import Problem, check
from state.codecs import analysis_row, capture_row, document_row, edge_row, link_chunk, link_list, posting_list
from state.codecs.analysis_row import AnalysisKey
from state.codecs.url_key import host_prefix
from state.families import Family
from state.model import PREFIX_BYTES, DocumentRow, Edge
from streams.operators.routing import partition_of
from tests.memory import MemoryStore
from tests.samples import begin_cancel

RESULTS = AnalysisKey(1, "mirrors", "paths")  # of `tests.state.conftest`
UNKNOWN = b"\x00unknown docume!"  # sorts first, so that it can be the parent of any document


def problems(store: MemoryStore, postings_max: int = 32) -> list[Problem]:
    return list(check(store, postings_max=postings_max))


def first(store: MemoryStore, family: Family, prefix: bytes = b"") -> tuple[bytes, bytes]:
    return next(iter(store.scan(family, prefix)))


def capture_with_document(store: MemoryStore) -> tuple[bytes, bytes]:
    return next(
        (row, value)
        for row, value in store.scan(Family.CAPTURES)
        if capture_row.decode(row, value).document is not None
    )


def test_a_sound_state_has_no_problem(sound: MemoryStore) -> None:
    assert problems(sound) == []
    assert len(sound.rows[Family.EDGES]) >= 8
    assert len(sound.rows[Family.DOCUMENTS]) > 10


Break = Callable[[MemoryStore, Changes], tuple[Family, str]]
BREAKS: dict[str, Break] = {}


def breaks(function: Break) -> Break:
    BREAKS[function.__name__] = function
    return function


@breaks
def a_capture_is_cut(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = capture_with_document(store)
    changes.put(Family.CAPTURES, row, value[:-1])
    return Family.CAPTURES, "truncated"


@breaks
def a_capture_of_an_unknown_document(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = capture_with_document(store)
    capture = capture_row.decode(row, value)
    changes.put(Family.CAPTURES, row, value.replace(capture.document or b"", UNKNOWN))
    return Family.CAPTURES, "which is not stored"


@breaks
def a_location_is_lost(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.delete(Family.LOCATIONS, first(store, Family.LOCATIONS)[0])
    return Family.CAPTURES, "has no location at this URL"


@breaks
def a_capture_is_lost(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.delete(Family.CAPTURES, capture_with_document(store)[0])
    return Family.SWEEPS, " captures of "


@breaks
def all_captures_of_a_url_are_lost(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    key = capture_row.decode(*capture_with_document(store)).key
    for row, _ in store.scan(Family.CAPTURES, capture_row.history_prefix(key)):
        changes.delete(Family.CAPTURES, row)
    return Family.LOCATIONS, "no capture of this URL has the document"


@breaks
def a_url_is_not_in_the_prefix_index(store: MemoryStore, _: Changes) -> tuple[Family, str]:
    store.unlisted.add(capture_row.history_prefix(capture_row.decode(*capture_with_document(store)).key))
    return Family.CAPTURES, "not in the prefix index"


@breaks
def a_decision_is_cut(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.DECISIONS)
    changes.put(Family.DECISIONS, row, value[:12])
    return Family.DECISIONS, "truncated"


@breaks
def a_decision_without_the_end_of_its_key(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.DECISIONS)
    changes.put(Family.DECISIONS, row[:-1], value)
    return Family.DECISIONS, "invalid row key"


@breaks
def a_chunk_of_results_is_lost(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.delete(Family.ANALYSES, analysis_row.encode_key(RESULTS, 2))
    return Family.ANALYSES, "3 results in 3 chunks are stored"


@breaks
def a_header_of_results_is_lost(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.delete(Family.ANALYSES, analysis_row.encode_key(RESULTS, 0))
    return Family.ANALYSES, "without a header"


@breaks
def a_header_of_results_is_damaged(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.ANALYSES, analysis_row.encode_key(RESULTS, 0), analysis_row.encode([b"{}"]))
    return Family.ANALYSES, "invalid header of an analysis"


@breaks
def a_chunk_of_results_is_cut(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = list(store.scan(Family.ANALYSES))[2]
    changes.put(Family.ANALYSES, row, value[:-1])
    return Family.ANALYSES, "cannot be decompressed"


@breaks
def results_of_an_open_sweep(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    analyses.put(store, changes, AnalysisKey(3, "mirrors", "paths"), [b"{}"], origin="00")
    return Family.ANALYSES, "sweep 3, which is not committed"


@breaks
def a_host_is_miscounted(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.SWEEPS, b"h")
    changes.put(Family.SWEEPS, row, struct.pack(">Q", struct.unpack(">Q", value)[0] + 1))
    return Family.SWEEPS, " captures of "


@breaks
def a_location_of_an_unknown_document(_: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.LOCATIONS, UNKNOWN + b"org,a)/", bytes(8))
    return Family.LOCATIONS, "which is not stored"


@breaks
def a_location_without_a_whole_id(_: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.LOCATIONS, b"short", bytes(8))
    return Family.LOCATIONS, "which is not stored"


@breaks
def a_document_row_is_cut(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.DOCUMENTS)
    changes.put(Family.DOCUMENTS, row, value[:-4])
    return Family.DOCUMENTS, "truncated"


@breaks
def a_document_without_a_whole_id(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.DOCUMENTS, b"short", first(store, Family.DOCUMENTS)[1])
    return Family.DOCUMENTS, "expected 16"


@breaks
def a_document_of_another_scheme(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.DOCUMENTS)
    sketch = document_row.decode(row, value).sketch
    short = msgspec.structs.replace(sketch, signature=sketch.signature[:7])
    changes.put(Family.DOCUMENTS, row, document_row.encode(DocumentRow(short, 0)))
    return Family.DOCUMENTS, "has 7 bins"


@breaks
def a_document_is_at_no_url(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, _ = first(store, Family.DOCUMENTS)
    for location, _ in store.scan(Family.LOCATIONS, row):
        changes.delete(Family.LOCATIONS, location)
    return Family.DOCUMENTS, "has no location"


@breaks
def a_bucket_is_lost(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.delete(Family.BANDS, first(store, Family.BANDS)[0])
    return Family.DOCUMENTS, "missing from bucket"


@breaks
def a_bucket_is_cut(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.BANDS)
    changes.put(Family.BANDS, row, value[:-1])
    return Family.BANDS, "truncated"


@breaks
def a_posting_of_an_unknown_document(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.BANDS)
    changes.put(Family.BANDS, row, posting_list.union(value, UNKNOWN[:5]))
    return Family.BANDS, "which is not stored"


@breaks
def a_sample_of_an_unknown_document(_: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.SAMPLES, b"1234" + UNKNOWN[:5])
    return Family.SAMPLES, "not stored"


@breaks
def a_word_of_an_unknown_document(_: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.WORDS, b"sitewrd!" + UNKNOWN[:5])
    return Family.WORDS, "not stored"


@breaks
def a_text_of_an_unknown_document(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.TEXTS, UNKNOWN, first(store, Family.TEXTS)[1])
    return Family.TEXTS, "not stored"


@breaks
def an_edge_is_cut(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.EDGES)
    changes.put(Family.EDGES, row, value[:-1])
    return Family.EDGES, "version 1"


@breaks
def an_edge_to_an_unknown_document(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(
        Family.EDGES,
        *edge_row.encode(
            Edge(a=UNKNOWN, b=first(store, Family.DOCUMENTS)[0], resemblance=1.0, containment=1.0, contained=1.0)
        ),
    )
    return Family.EDGES, "which is not stored"


@breaks
def an_edge_between_two_clusters(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    children = store.rows[Family.PARENTS].keys() | set(store.rows[Family.PARENTS].values())
    alone = [key for key, _ in store.scan(Family.DOCUMENTS) if key not in children][:2]
    changes.put(
        Family.EDGES, *edge_row.encode(Edge(a=alone[0], b=alone[1], resemblance=1.0, containment=1.0, contained=1.0))
    )
    return Family.EDGES, "connects documents of different clusters"


@breaks
def parents_in_a_cycle(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, parent = first(store, Family.PARENTS)
    changes.put(Family.PARENTS, parent, row)
    return Family.PARENTS, "is not the id of a smaller document"


@breaks
def a_parent_of_itself(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, _ = first(store, Family.PARENTS)
    changes.put(Family.PARENTS, row, row)
    return Family.PARENTS, "is not the id of a smaller document"


@breaks
def a_parent_is_cut(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, parent = first(store, Family.PARENTS)
    changes.put(Family.PARENTS, row, parent[:5])
    return Family.PARENTS, "is not the id of a smaller document"


@breaks
def a_parent_that_is_not_stored(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.PARENTS, first(store, Family.PARENTS)[0], UNKNOWN)
    return Family.PARENTS, "not stored"


@breaks
def a_member_is_lost(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.delete(Family.MEMBERS, first(store, Family.MEMBERS)[0])
    return Family.MEMBERS, "have a parent"


@breaks
def a_member_of_another_root(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, _ = first(store, Family.MEMBERS)
    other = next(key for key, _ in store.scan(Family.DOCUMENTS) if key != row[:16])
    changes.delete(Family.MEMBERS, row)
    changes.put(Family.MEMBERS, other + row[16:])
    return Family.MEMBERS, "under the wrong root"


@breaks
def a_sweep_that_does_not_decode(store: MemoryStore, changes: Changes) -> tuple[Family, str]:
    row, value = first(store, Family.SWEEPS, b"s")
    changes.put(Family.SWEEPS, row, value[:-1])
    return Family.SWEEPS, "cannot be decoded"


@breaks
def counters_that_do_not_decode(_: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.META, b"counters", b"{")
    return Family.META, "cannot be decoded"


@breaks
def a_scheme_that_does_not_decode(_: MemoryStore, changes: Changes) -> tuple[Family, str]:
    changes.put(Family.META, b"scheme", b"{")
    return Family.META, "cannot be decoded"


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_invariant_is_reported(sound: MemoryStore, name: str) -> None:
    changes = Changes()
    family, what = BREAKS[name](sound, changes)
    assert len(changes) or sound.unlisted
    sound.write(changes)
    reported = problems(sound)
    assert any(p.family == family.value and what in p.description for p in reported), reported


def set_counters(store: MemoryStore, **totals: int) -> None:
    changes = Changes()
    meta.put_counters(changes, totals)
    store.write(changes)


def set_full_buckets(store: MemoryStore, postings_max: int) -> None:
    changes = Changes()
    meta.put_full_bucket_size(changes, postings_max)
    store.write(changes)


def drop_a_posting(store: MemoryStore) -> int:
    """Drop a posting from the first bucket of several; return how many are left."""
    row, value = next((row, value) for row, value in store.scan(Family.BANDS) if len(value) > 5)
    changes = Changes()
    changes.put(Family.BANDS, row, value[5:])
    store.write(changes)
    return len(value) // 5 - 1


def test_a_full_bucket_may_lack_documents(sound: MemoryStore) -> None:
    left = drop_a_posting(sound)
    assert problems(sound, postings_max=left) == []
    assert problems(sound, postings_max=left + 1)


def test_a_bucket_that_was_full_before_a_document_was_deleted_may_lack_documents(sound: MemoryStore) -> None:
    drop_a_posting(sound)
    set_full_buckets(sound, 1)
    assert problems(sound)
    set_counters(sound, documents_forgotten=1)
    assert problems(sound) == []


def test_counts_of_a_sweep_that_is_being_cancelled_are_not_checked(sound: MemoryStore) -> None:
    begin_cancel(sound, sweeps.all_sweeps(sound)[0])
    changes = Changes()
    row, _ = first(sound, Family.SWEEPS, b"h")
    changes.put(Family.SWEEPS, row, bytes(8))
    sound.write(changes)
    assert problems(sound) == []


def owner(family: Family, row: bytes) -> bytes:
    """Return the key that decides which partition a row belongs to, as in `streams.operators.routing`."""
    match family:
        case Family.CAPTURES | Family.DECISIONS:
            return row[: row.index(b"\0")]
        case Family.LINK_LISTS:
            return link_list.decode_key(row)[0]
        case Family.LINK_CHUNKS:
            return row[link_chunk.CHUNK_ID_BYTES :]
        case Family.BANDS:
            return row
        case Family.SAMPLES | Family.WORDS:
            return row[-PREFIX_BYTES:]
        case _:
            return row[:PREFIX_BYTES]


# Rows of all partitions, of two partitions, and of every partition that has one of their pages.
NOT_OF_ONE_PARTITION = {
    Family.META, Family.SWEEPS, Family.EDGES, Family.LINK_CHUNKS, Family.LINK_TARGETS, Family.ANALYSES
}  # fmt: skip


def partitions(store: MemoryStore, count: int) -> list[MemoryStore]:
    """Split a state as workers do: rows by owner, counts per host in every partition, and no sweeps."""
    parts = [MemoryStore() for _ in range(count)]
    for number, part in enumerate(parts):
        changes = Changes()
        hosts: Counter[tuple[int, bytes]] = Counter()
        for family in Family:
            for row, value in store.scan(family):
                if family is Family.ANALYSES:
                    continue  # partitions have none
                if family is Family.META:
                    changes.put(family, row, value)
                elif family is Family.LINK_TARGETS or (family is Family.LINK_CHUNKS and value):
                    continue  # added below: a partition has the chunks of its pages
                elif family is not Family.SWEEPS and partition_of(owner(family, row), count) == number:
                    changes.put(family, row, value)
                    if family is Family.CAPTURES:
                        capture = capture_row.decode(row, value)
                        hosts[capture.sweep, host_prefix(capture.key)] += 1
        for chunk_id in {row[: link_chunk.CHUNK_ID_BYTES] for row in changes.puts_of(Family.LINK_CHUNKS)}:
            chunk = store.get(Family.LINK_CHUNKS, chunk_id) or b""
            changes.put(Family.LINK_CHUNKS, chunk_id, chunk)
            for target_key in link_chunk.target_keys(chunk, chunk_id):
                changes.put(Family.LINK_TARGETS, target_key)
        for (sweep, host), captures in hosts.items():
            sweeps.add_captures_per_host(part, changes, sweep, {host: captures})
        part.write(changes)
    return parts


def partition_problems(store: MemoryStore, number: int, count: int) -> list[Problem]:
    owns = lambda key: partition_of(key, count) == number  # noqa: E731
    return list(check(store, postings_max=32, owns=owns))


@pytest.mark.parametrize("count", [1, 3, 8])
def test_each_partition_of_a_sound_state_is_sound(sound: MemoryStore, count: int) -> None:
    for number, part in enumerate(partitions(sound, count)):
        assert partition_problems(part, number, count) == []


@pytest.mark.parametrize("family", [f for f in Family if f not in NOT_OF_ONE_PARTITION])
def test_a_row_of_another_partition_is_reported(sound: MemoryStore, family: Family) -> None:
    one, other = partitions(sound, 2)
    changes = Changes()
    row, value = first(other, family)
    changes.put(family, row, value)
    one.write(changes)
    elsewhere = [p for p in partition_problems(one, 0, 2) if "another partition" in p.description]
    assert [p.family for p in elsewhere] == [family.value]
    assert [p.key for p in elsewhere] == [row.hex()]


@pytest.mark.parametrize(
    ("deleted", "reported", "what"),
    [
        (Family.DOCUMENTS, Family.TEXTS, "not stored"),
        (Family.BANDS, Family.DOCUMENTS, "missing from bucket"),
        (Family.LOCATIONS, Family.DOCUMENTS, "has no location"),
        (Family.CAPTURES, Family.SWEEPS, " captures of "),
    ],
)
def test_missing_rows_of_a_partition_are_reported(
    sound: MemoryStore, deleted: Family, reported: Family, what: str
) -> None:
    one, _ = partitions(sound, 2)
    changes = Changes()
    for row, _ in list(one.scan(deleted)):
        changes.delete(deleted, row)
    one.write(changes)
    assert any(p.family == reported.value and what in p.description for p in partition_problems(one, 0, 2))


def test_full_buckets_of_a_partition_may_lack_documents(sound: MemoryStore) -> None:
    """A partition does not count deleted documents, so any bucket may have been full."""
    (one,) = partitions(sound, 1)
    drop_a_posting(one)
    assert partition_problems(one, 0, 1)
    set_full_buckets(one, 2)
    set_full_buckets(one, 16)
    assert meta.smallest_full_bucket_size(one) == 2
    assert partition_problems(one, 0, 1) == []
