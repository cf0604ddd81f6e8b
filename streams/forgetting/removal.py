"""Compute the changes that delete URLs, documents and cancelled sweeps, and rebuild only the affected clusters.

The generators `forget_url`, `forget_document` and `cancel_sweep` write nothing: they yield `Removal` values. The
caller, usually `commit_removals`, must commit each removal before it requests the next one, which is computed from
the new state. The state is consistent after every removal, so a crash between two removals does no harm.
`only_writer` is False if pages may arrive between two removals, as on Kafka.

A union-find cannot undo a union. The component of a deleted document is therefore dissolved, and its other documents
are joined again by the remaining edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import msgspec

from state import analyses, meta, sweeps
from state.changes import Changes
from state.codecs import capture_row, decision_row, document_row, location_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, DecisionKind, DocumentRow, Sketch, Sweep, SweepState
from state.rows import RowReader
from state.scheme import Scheme
from state.view import View
from streams.forgetting.bucket_refill import remove_postings
from streams.forgetting.deferral import DeferredClusters, delete_edges_of_missing, missing_documents
from streams.forgetting.detachment import DoomedDocuments, detach, stored_edges
from streams.forgetting.link_removal import delete_links
from streams.forgetting.remaining_text import RemainingTexts
from streams.forgetting.word_index import AffectedDocument, StaleEntryFinder, captures_elsewhere
from streams.operators import forest
from streams.sketch.index_terms import sample_entries
from streams.urls import host_prefix

CAPTURES_PER_REMOVAL = 1_000
_ALL = 1 << 62  # as a limit: all rows


class Removal(msgspec.Struct, frozen=True):
    """Changes that are committed together, with counts of what they remove."""

    changes: Changes
    captures: int = 0
    documents: int = 0
    rejoined: int = 0  # remaining documents of dissolved clusters, which were joined again
    decisions: int = 0


class RemovalTotals(msgspec.Struct, frozen=True):
    """The totals of all removals of one command."""

    captures: int
    documents: int
    rejoined: int
    decisions: int = 0


def commit_removals(
    removals: Iterable[Removal],
    commit: Callable[[Changes], None],
    report_progress: Callable[[Removal], None] = lambda _: None,
) -> RemovalTotals:
    """Commit each removal before the next one is computed, and report it. Return the totals."""
    captures = documents = rejoined = decisions = 0
    for removal in removals:
        commit(removal.changes)
        captures += removal.captures
        documents += removal.documents
        rejoined += removal.rejoined
        decisions += removal.decisions
        report_progress(removal)
    return RemovalTotals(captures, documents, rejoined, decisions)


def forget_document(reader: RowReader, document: bytes, *, only_writer: bool = True) -> Iterator[Removal]:
    """Remove a document and all its captures.

    If pages may arrive between removals, yield several removals of limited size. After a crash, call this again to
    resume.
    """
    yield from finish_interrupted_removals(reader, only_writer=only_writer)
    view = View(reader)
    captures = (
        capture
        for key in view.locations([document], limit=_ALL)[0]
        for capture in view.captures(key)
        if capture.document == document
    )
    entry_finder = StaleEntryFinder(reader, view.scheme, lambda _: False)  # no capture of the document remains
    if not only_writer:
        yield from _remove_while_pages_arrive(reader, captures, entry_finder)
    # The document itself may remain if it has no captures.
    yield _remove(reader, list(captures), entry_finder, must_delete={document}, only_writer=only_writer)


def forget_url(reader: RowReader, key: bytes, *, only_writer: bool = True) -> Iterator[Removal]:
    """Remove the captures of a URL key, the documents that have no other capture, and the decision about the URL.

    After a crash, call this again to resume. If the caller is the only writer, it can also be resumed by
    `finish_interrupted_removals`.
    """
    yield from _finish_sweeps(reader, only_writer=only_writer)
    interrupted_key = meta.url_to_forget(reader)
    if interrupted_key not in {None, key}:
        yield from _uncounted(_forget_in_parts(reader, interrupted_key))
    if only_writer:
        yield from _forget_in_parts(reader, key)
    else:
        scan = reader.scan(Family.CAPTURES, capture_row.history_prefix(key))
        captures = (capture_row.decode(*row) for row in scan)
        yield from _remove_while_pages_arrive(reader, captures, _entry_finder(reader, key))
        yield _with_decision_deletion(reader, key, Removal(Changes()))


def _forget_in_parts(reader: RowReader, key: bytes) -> Iterator[Removal]:
    """Remove the captures of a URL key in removals of limited size, and the decision about the URL in the last one.

    If there are several removals, the state records the URL until the last one, so that a later command can resume.
    """
    entry_finder, start = _entry_finder(reader, key), b""
    doomed = DoomedDocuments(reader, lambda capture: capture.key != key)
    is_last, is_marked = False, meta.url_to_forget(reader) == key
    while not is_last:
        scan = reader.scan(Family.CAPTURES, capture_row.history_prefix(key), start)
        rows = list(islice(scan, CAPTURES_PER_REMOVAL + 1))
        is_last = len(rows) <= CAPTURES_PER_REMOVAL
        captures = [capture_row.decode(*row) for row in rows[:CAPTURES_PER_REMOVAL]]
        if not is_last:
            start = rows[-1][0]
            if not is_marked:
                is_marked, changes = True, Changes()
                meta.put_url_to_forget(changes, key)
                yield Removal(changes)
            yield from _detach(reader, captures, doomed)
        removal = _remove(reader, captures, entry_finder)
        if is_last and is_marked:
            meta.delete_url_to_forget(removal.changes)
        yield _with_decision_deletion(reader, key, removal) if is_last else removal


def _with_decision_deletion(reader: RowReader, key: bytes, removal: Removal) -> Removal:
    """Add the deletion of a URL's row in `decisions`, if there is one. Count it unless its kind is REMOVED."""
    row_key = decision_row.encode_key(key)
    if (value := reader.get(Family.DECISIONS, row_key)) is None:
        return removal
    removal.changes.delete(Family.DECISIONS, row_key)
    is_current = decision_row.decode(row_key, value).kind is not DecisionKind.REMOVED
    return msgspec.structs.replace(removal, decisions=int(is_current))


def _entry_finder(reader: RowReader, key: bytes) -> StaleEntryFinder:
    return StaleEntryFinder(reader, View(reader).scheme, lambda capture: capture.key != key)


def cancel_sweep(reader: RowReader, sweep: Sweep, *, only_writer: bool = True) -> Iterator[Removal]:
    """Remove everything that a sweep added. After a crash, call it again to resume.

    The first removal marks the sweep as cancelling, which hides its captures from queries. The last removal marks it
    as cancelled. Raise LostfoundError if the sweep is already cancelled.
    """
    changes = Changes()
    sweep = sweeps.begin_cancel(sweep, changes)
    analyses.delete(reader, changes)
    if changes:
        yield Removal(changes)
    entry_finder = StaleEntryFinder(reader, View(reader).scheme, lambda capture: capture.sweep != sweep.number)
    if only_writer:
        start, doomed = b"", DoomedDocuments(reader, lambda capture: capture.sweep != sweep.number)
        while captures := list(islice(_captures_of_sweep(reader, sweep.number, start), CAPTURES_PER_REMOVAL)):
            start = capture_row.key_of(captures[-1])
            yield from _detach(reader, captures, doomed)
            yield _remove(reader, captures, entry_finder)
    else:
        yield from _remove_while_pages_arrive(reader, _captures_of_sweep(reader, sweep.number), entry_finder)
    changes = Changes()
    sweeps.finish_cancel(reader, sweep, changes)
    yield Removal(changes)


def finish_interrupted_removals(reader: RowReader, *, only_writer: bool = True) -> Iterator[Removal]:
    """Finish the cancellations, and the forgetting of a URL, that a crash interrupted.

    Every writer does this before it opens a sweep, ingests or forgets. Queries and commits need not wait: the
    remaining captures of a cancelled sweep are hidden, but its name cannot be reused yet. The counts of these
    removals are 0, because they do not belong to the command that finishes them.
    """
    yield from _finish_sweeps(reader, only_writer=only_writer)
    if (key := meta.url_to_forget(reader)) is not None:
        yield from _uncounted(_forget_in_parts(reader, key))


def _finish_sweeps(reader: RowReader, *, only_writer: bool) -> Iterator[Removal]:
    for sweep in sweeps.all_sweeps(reader):
        if sweep.state is SweepState.CANCELLING:
            yield from _uncounted(cancel_sweep(reader, sweep, only_writer=only_writer))


def _uncounted(removals: Iterable[Removal]) -> Iterator[Removal]:
    return (Removal(removal.changes) for removal in removals)


def _detach(reader: RowReader, captures: Sequence[Capture], doomed: DoomedDocuments) -> Iterator[Removal]:
    documents = {capture.document for capture in captures if capture.document}
    for changes, rejoined in detach(reader, documents, doomed):
        yield Removal(changes, rejoined=rejoined)


def _captures_of_sweep(reader: RowReader, sweep: int, start: bytes = b"") -> Iterator[Capture]:
    """Yield the captures of a sweep, starting at the row key `start`."""
    rows = (row for row in reader.scan(Family.CAPTURES, start=start) if capture_row.decode_key(row[0])[1] == sweep)
    return (capture_row.decode(*row) for row in rows)


def _remove_while_pages_arrive(
    reader: RowReader, captures: Iterator[Capture], entry_finder: StaleEntryFinder
) -> Iterator[Removal]:
    """Remove captures in removals of limited size. The last removals rebuild the large clusters."""
    clusters = DeferredClusters(reader)
    while part := list(islice(captures, CAPTURES_PER_REMOVAL)):
        removable = clusters.defer(part)
        yield _remove(reader, removable, entry_finder, only_writer=False, deferred=clusters.roots)
    for start in range(0, len(clusters.captures), CAPTURES_PER_REMOVAL):
        part = clusters.captures[start : start + CAPTURES_PER_REMOVAL]
        for changes in delete_edges_of_missing(reader, {capture.document for capture in part if capture.document}):
            yield Removal(changes)
        yield _remove(reader, part, entry_finder, only_writer=False)


def _remove(
    reader: RowReader,
    captures: Sequence[Capture],
    entry_finder: StaleEntryFinder,
    must_delete: Collection[bytes] = (),
    *,
    only_writer: bool = True,
    deferred: Collection[bytes] = (),
) -> Removal:
    """Remove captures, the locations and documents that have no other captures, and the documents in `must_delete`.

    The clusters with the roots `deferred` are not rebuilt. If pages may arrive, links are not removed here but by
    the partition that owns the captures.
    """
    changes = Changes()
    captures_by_document: dict[bytes, list[Capture]] = {document: [] for document in must_delete}
    for capture in captures:
        changes.delete(Family.CAPTURES, capture_row.key_of(capture))
        if capture.document:
            captures_by_document.setdefault(capture.document, []).append(capture)
    if captures:
        analyses.delete(reader, changes)  # results contain URLs
    if only_writer:
        delete_links(reader, changes)
    _subtract_counts(reader, changes, captures)
    scheme = View(reader).scheme
    deleted, affected = _remove_from_urls(reader, changes, scheme, captures_by_document, must_delete)
    _delete_rows(reader, changes, deleted)
    remove_postings(reader, changes, deleted, scheme)
    changes.delete_all(Family.WORDS, entry_finder.find(affected))
    removed_documents = deleted if only_writer else captures_by_document
    rejoined = _rejoin(reader, changes, removed_documents, deleted, deferred, only_writer=only_writer)
    counters = Counter(meta.counters(reader))
    counters.update(documents=-len(deleted), documents_forgotten=len(deleted))
    meta.put_counters(changes, dict(counters))
    return Removal(changes, len(captures), len(deleted), rejoined)


class _UrlCaptures(msgspec.Struct, frozen=True):
    """The captures of one document at one URL key: the captures to remove, and the remaining ones."""

    key: bytes
    location: bytes | None  # the stored value in `locations`
    removed: list[Capture]
    remaining: list[Capture]

    @property
    def first_seen(self) -> int | None:
        """The time of the earliest remaining capture (ms); None if no capture remains."""
        return min((capture.time for capture in self.remaining), default=None)


def _remove_from_urls(
    reader: RowReader,
    changes: Changes,
    scheme: Scheme,
    captures_by_document: Mapping[bytes, Sequence[Capture]],
    must_delete: Collection[bytes],
) -> tuple[dict[bytes, Sketch], list[AffectedDocument]]:
    """Update the locations and texts of documents. Return the documents to delete, and all affected documents."""
    deleted: dict[bytes, Sketch] = {}
    affected: list[AffectedDocument] = []
    texts = RemainingTexts(reader, scheme)
    documents = sorted(captures_by_document)
    remaining_captures = _read_remaining(reader, captures_by_document)
    for document, value in zip(documents, reader.get_many(Family.DOCUMENTS, documents), strict=True):
        if value is None:
            continue
        row = document_row.decode(document, value)
        removed = captures_by_document[document]
        url_captures = list(_captures_at_urls(reader, document, removed, remaining_captures))
        _update_locations(changes, document, url_captures)
        first_seen = _first_seen(reader, row, url_captures)
        # Several URLs may share a key.
        urls_by_key = {url.key: {c.url for c in url.removed} - {c.url for c in url.remaining} for url in url_captures}
        removed_urls = {key: urls for key, urls in urls_by_key.items() if urls}
        if first_seen is None or document in must_delete:
            deleted[document] = row.sketch
            affected.append(AffectedDocument(document, removed_urls, None))
            continue
        removed_keys = {url.key for url in url_captures if not url.remaining}
        affected.append(AffectedDocument(document, removed_urls, removed_keys))
        if first_seen != row.first_seen:
            changes.put(Family.DOCUMENTS, document, document_row.with_first_seen(value, first_seen))
        remaining = chain.from_iterable(url.remaining for url in url_captures)
        elsewhere = captures_elsewhere(reader, document, {url.key for url in url_captures})
        texts.update(changes, row.sketch, removed, chain(remaining, elsewhere))
    return deleted, affected


def _subtract_counts(reader: RowReader, changes: Changes, captures: Sequence[Capture]) -> None:
    """Subtract the captures from the counts of their sweeps, in total and per host."""
    host_counts = Counter((c.sweep, host_prefix(c.key)) for c in captures)
    for sweep in sweeps.all_sweeps(reader):
        decreases = {host: -count for (number, host), count in host_counts.items() if number == sweep.number}
        if decreases:
            sweeps.add_captures_per_host(reader, changes, sweep.number, decreases)
            if sweep.state is SweepState.COMMITTED:
                sweeps.put(changes, msgspec.structs.replace(sweep, captures=sweep.captures + sum(decreases.values())))


def _read_remaining(
    reader: RowReader, captures_by_document: Mapping[bytes, Sequence[Capture]]
) -> dict[tuple[bytes, bytes], list[Capture]]:
    """Return the remaining captures of the documents at the URLs of their removed captures, by document and URL key.

    The history of each URL is read once, however many of its captures and documents are removed.
    """
    removed_rows = {capture_row.key_of(c) for captures in captures_by_document.values() for c in captures}
    keys = sorted({capture.key for captures in captures_by_document.values() for capture in captures})
    remaining: dict[tuple[bytes, bytes], list[Capture]] = {}
    for key in keys:
        for row in reader.scan(Family.CAPTURES, capture_row.history_prefix(key)):
            if row[0] not in removed_rows and capture_row.document_of(row[1]) in captures_by_document:
                capture = capture_row.decode(*row)
                remaining.setdefault((capture.document or b"", key), []).append(capture)
    return remaining


def _captures_at_urls(
    reader: RowReader,
    document: bytes,
    removed: Sequence[Capture],
    remaining: Mapping[tuple[bytes, bytes], list[Capture]],
) -> Iterator[_UrlCaptures]:
    """Yield the captures of a document at the URL keys of its removed captures.

    The document's other URLs are not read: an error page can have millions.
    """
    by_key: dict[bytes, list[Capture]] = {}
    for capture in removed:
        by_key.setdefault(capture.key, []).append(capture)
    keys = sorted(by_key)
    locations = reader.get_many(Family.LOCATIONS, [document + key for key in keys])
    for key, location in zip(keys, locations, strict=True):
        yield _UrlCaptures(key, location, by_key[key], remaining.get((document, key), []))


def _update_locations(changes: Changes, document: bytes, url_captures: Sequence[_UrlCaptures]) -> None:
    for url in url_captures:
        if url.first_seen is None:
            changes.delete(Family.LOCATIONS, document + url.key)
        elif url.location not in {None, location_row.encode(url.first_seen)}:
            changes.put(Family.LOCATIONS, document + url.key, location_row.encode(url.first_seen))


def _first_seen(reader: RowReader, row: DocumentRow, url_captures: Sequence[_UrlCaptures]) -> int | None:
    """Return when a document was first seen at its remaining URLs (ms); None if no URL remains.

    Before the removal, this time is `row.first_seen`. If no URL in `url_captures` has this time, another URL has it,
    so the time does not change. The scan ends as early as possible, because a document may have many locations.
    """
    first_seen_by_key = {url.key: url.first_seen for url in url_captures}
    is_unchanged = all(url.location != location_row.encode(row.first_seen) for url in url_captures)
    earliest: int | None = None
    for location, value in reader.scan(Family.LOCATIONS, row.sketch.document):
        key = location[ID_BYTES:]
        first_seen = first_seen_by_key[key] if key in first_seen_by_key else location_row.decode(value)
        if first_seen is None:
            continue
        if is_unchanged:
            return row.first_seen
        earliest = first_seen if earliest is None else min(earliest, first_seen)
        if earliest <= row.first_seen:
            break
    return earliest


def _delete_rows(reader: RowReader, changes: Changes, deleted: Mapping[bytes, Sketch]) -> None:
    """Delete the rows of documents, except their edges and their entries in buckets and the word index."""
    changes.delete_all(Family.DOCUMENTS, deleted.keys())
    changes.delete_all(Family.TEXTS, deleted.keys())
    for document, sketch in deleted.items():
        changes.delete_all(Family.LOCATIONS, {row for row, _ in reader.scan(Family.LOCATIONS, document)})
        samples, prefix = sample_entries(sketch), document[:PREFIX_BYTES]  # 4 bytes per sample
        changes.delete_all(Family.SAMPLES, {samples[i : i + 4] + prefix for i in range(0, len(samples), 4)})


def _rejoin(
    reader: RowReader,
    changes: Changes,
    documents: Iterable[bytes],
    deleted: Collection[bytes],
    deferred: Collection[bytes],
    *,
    only_writer: bool,
) -> int:
    """Rebuild the components of `documents` from which documents are deleted, now or by an earlier removal.

    Return the number of remaining documents in the components.
    """
    view = View(reader)
    roots = sorted(set(view.roots(sorted(documents))).difference(deferred))
    components = dict(zip(roots, view.some_members(roots, _ALL), strict=True))
    if not only_writer:
        missing = missing_documents(reader, chain.from_iterable(components.values()))
        deleted = missing.union(deleted)
        components = {root: members for root, members in components.items() if not deleted.isdisjoint(members)}
    nodes = [node for members in components.values() for node in members]
    memberships = [(root, member) for root, members in components.items() for member in members if member != root]
    edges = stored_edges(reader, nodes)
    forest.rejoin(reader, changes, nodes=nodes, memberships=memberships, edges=edges, deleted=deleted)
    return len(set(nodes).difference(deleted))
