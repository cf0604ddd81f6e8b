"""Run the operators one after another on a micro-batch, in one process with one RocksDB.

The changes of a batch and the input cursor are written atomically. After a crash, a batch is therefore stored either
completely or not at all, and the next run resumes at the cursor.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from state import meta, sweeps
from state.changes import Changes
from state.codecs import document_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, Sketch, Sweep
from state.rows import LocalReader, RowStore
from streams.operators import admit, capture, forest, link, lookups, probe, verify
from streams.operators.messages import CandidatePair, DocumentPayload, SketchedPage
from streams.operators.probe import ProbeResult
from streams.operators.verify import VerifyResult
from streams.page import Rejected
from streams.settings import Settings
from streams.urls import host_prefix

CACHED_PREFIXES_MAX = 20_000  # sketches are cached because members of large clusters are frequent candidates


class EngineStore(LocalReader, RowStore, Protocol):
    """The store that an engine requires."""


class BatchReport(msgspec.Struct, frozen=True, kw_only=True):
    """The counts and the rejected records of one batch."""

    pages: int
    new: int  # documents that were not in the state
    copies: int  # pages whose document was in the state, but not as the latest document of their URL
    unchanged: int  # pages with the same document as the previous capture of their URL
    near_duplicates: int  # new documents that are near-duplicates of an earlier document
    not_pages: int  # responses that are not pages, such as images and scripts
    rejected: list[Rejected]


class PreparedBatch(msgspec.Struct, frozen=True):
    """The result of `Engine.prepare`. The caller may add changes, such as a cursor, before it calls `commit`."""

    changes: Changes
    report: BatchReport
    counters: dict[str, int]  # the state's totals after the batch


class Engine:
    """Runs the operators on a store. `prepare` computes the changes of a batch, and `commit` writes them."""

    def __init__(self, store: EngineStore, settings: Settings) -> None:
        """Raise StateIncompatible if the store uses a different scheme or was written by a newer version."""
        self.store = store
        self.settings = settings
        self.scheme = meta.claim_scheme(store, settings.scheme)
        self.counters = meta.counters(store)  # after the last commit
        self.commits = 0  # number of commits by this engine
        self._sketches: OrderedDict[bytes, list[Sketch]] = OrderedDict()  # by document prefix

    def prepare(
        self,
        sweep: Sweep,
        pages: Sequence[SketchedPage],
        rejected: Sequence[Rejected],
        last_captures: Mapping[bytes, Capture] | None = None,
        commits_at_read: int = -1,
        not_pages: int = 0,
    ) -> PreparedBatch:
        """Run the operators on a batch without changing the store or the counters.

        `last_captures` contains the last capture of each page's URL, read when this engine had made
        `commits_at_read` commits. These captures are read again if a batch has been committed since. `not_pages` is
        the number of responses in the batch that are not pages.
        """
        resolved, unresolved = capture.resolve(
            pages, lookups.read_possible_originals(self.store, capture.original_queries(pages))
        )
        if last_captures is None or commits_at_read != self.commits:
            last_captures = lookups.read_last_captures(self.store, capture.url_keys(pages))
        capture_result = capture.capture(resolved, last_captures)
        stored_chunks = lookups.read_stored_chunks(self.store, resolved, last_captures)
        link_result = link.link(resolved, last_captures, stored_chunks)
        admission_rows = lookups.read_admission_rows(self.store, capture_result.sightings)
        admit_changes, new_payloads = admit.admit(capture_result.sightings, *admission_rows)
        probe_result = self._probe_buckets(new_payloads)
        verify_result = self._verify_pairs(new_payloads, probe_result.pairs)
        changes = Changes()
        for operator_changes in (
            capture_result.changes,
            link_result.changes,
            admit_changes,
            probe_result.changes,
            verify_result.changes,
        ):
            changes.update(operator_changes)
        new_ids = {payload.document for payload in new_payloads}
        forest.join_all(self.store, verify_result.unions, changes, new_documents=new_ids)
        self._add_captures_per_host(sweep, capture_result, changes)
        report = BatchReport(
            pages=len(pages),
            new=len(new_ids),
            copies=len(capture_result.sightings) - len(new_ids),
            unchanged=capture_result.unchanged,
            near_duplicates=_count_near_duplicates(new_payloads, verify_result),
            not_pages=not_pages,
            rejected=[*rejected, *unresolved],
        )
        counters = self._updated_counters(
            report, new_payloads, capture_result, link_result, probe_result, verify_result
        )
        meta.put_counters(changes, counters)
        if probe_result.postings_dropped:
            meta.put_full_bucket_size(changes, self.settings.limits.bucket_postings_max)
        return PreparedBatch(changes, report, counters)

    def commit(self, batch: PreparedBatch) -> None:
        """Write the changes of a batch atomically."""
        self.store.write(batch.changes)
        self.counters = batch.counters
        self.commits += 1

    def count_only(self, batch: PreparedBatch) -> None:
        """Add a batch without pages to the counters in memory.

        The changes of the batch are dropped. The next commit writes the counters.
        """
        assert not batch.report.pages, "only the changes of a batch without pages can be dropped"
        self.counters = batch.counters

    def _probe_buckets(self, new_payloads: Sequence[DocumentPayload]) -> ProbeResult:
        batch, limits = probe.group_buckets(new_payloads, self.scheme.bucket_bytes), self.settings.limits
        stored = self.store.get_many(Family.BANDS, batch.keys)
        return probe.probe(batch, stored, limits.bucket_postings_max, limits.candidates_max)

    def _verify_pairs(self, new_payloads: Sequence[DocumentPayload], pairs: Sequence[CandidatePair]) -> VerifyResult:
        candidate_prefixes = {pair.prefix for pair in pairs}
        documents_with_candidates = {pair.document for pair in pairs}
        new_sketches: dict[bytes, Sketch] = {}
        stored_sketches = self._read_sketches(sorted(candidate_prefixes))
        candidates = {prefix: list(sketches) for prefix, sketches in stored_sketches.items()}
        for payload in new_payloads:
            prefix = payload.document[:PREFIX_BYTES]
            if payload.document not in documents_with_candidates and prefix not in candidate_prefixes:
                continue
            self._sketches.pop(prefix, None)  # the cached list lacks the new document
            sketch = document_row.decode(payload.document, payload.row).sketch
            new_sketches[payload.document] = sketch
            candidates.setdefault(prefix, []).append(sketch)
        return verify.verify(pairs, new_sketches, candidates, self.settings.policy.threshold)

    def _read_sketches(self, prefixes: Sequence[bytes]) -> dict[bytes, list[Sketch]]:
        """Return the stored sketches under each document prefix. Recently used sketches are cached."""
        sketches = {prefix: cached for prefix in prefixes if (cached := self._sketches.get(prefix))}
        uncached = [prefix for prefix in prefixes if prefix not in sketches]
        for prefix, rows in zip(uncached, self.store.rows_under(Family.DOCUMENTS, uncached), strict=True):
            if rows:
                sketches[prefix] = [document_row.decode(key, value).sketch for key, value in rows]
        for prefix, prefix_sketches in sketches.items():
            self._sketches[prefix] = prefix_sketches
            self._sketches.move_to_end(prefix)
        while len(self._sketches) > CACHED_PREFIXES_MAX:
            self._sketches.popitem(last=False)
        return sketches

    def _add_captures_per_host(self, sweep: Sweep, capture_result: capture.CaptureResult, changes: Changes) -> None:
        """Add the number of new captures per host to the counts of the sweep."""
        captures_per_host = Counter(host_prefix(c.key) for c in capture_result.captures)
        stored_rows = lookups.read_rows(self.store, Family.CAPTURES, capture_result.possibly_stored_keys)
        captures_per_host.subtract(host_prefix(key) for key in stored_rows)
        sweeps.add_captures_per_host(self.store, changes, sweep.number, captures_per_host)

    def _updated_counters(
        self,
        report: BatchReport,
        new_payloads: Sequence[DocumentPayload],
        capture_result: capture.CaptureResult,
        link_result: link.LinkResult,
        probe_result: ProbeResult,
        verify_result: VerifyResult,
    ) -> dict[str, int]:
        # A truncated text has exactly `tokens_max` tokens. Complete texts of this length are counted too.
        tokens_max = self.settings.limits.tokens_max
        totals = Counter(self.counters)
        # A counter with the name of a limit counts what the limit left out.
        totals.update(
            pages=report.pages,
            documents=report.new,
            unchanged=report.unchanged,
            near_duplicates=report.near_duplicates,
            not_pages=report.not_pages,
            rejected=len(report.rejected),
            pairs_verified=verify_result.pairs_compared,
            bucket_postings_max=probe_result.postings_dropped,
            candidates_max=probe_result.candidates_dropped,
            html_stripped=capture_result.stripped,
            links_max=link_result.links_dropped,
            anchor_chars_max=link_result.anchors_cut,
            tokens_max=sum(document_row.tokens(payload.row) >= tokens_max for payload in new_payloads),
        )
        return dict(totals)


def _count_near_duplicates(new_payloads: Sequence[DocumentPayload], verify_result: VerifyResult) -> int:
    """Count the new documents that have an edge to an earlier document.

    Within a batch, earlier means earlier in the input, so the count does not depend on the batch size.
    """
    input_order = {payload.document: number for number, payload in enumerate(new_payloads)}
    pairs = [(edge[:ID_BYTES], edge[ID_BYTES:]) for edge in verify_result.changes.puts_of(Family.EDGES)]
    return len({max(pair, key=lambda document: input_order.get(document, -1)) for pair in pairs})
