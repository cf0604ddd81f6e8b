"""The embedded engine: one process, one RocksDB, the operators called one after another on a micro-batch.

A batch's changes and the input's cursor go into one write batch: a crash at any instant leaves all of a batch or
none of it, and a restart goes on at the cursor.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence

import msgspec

from state import meta, sweeps
from state.changes import Changes
from state.codecs import document_row
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, Capture, Sketch, Sweep
from state.store import Store
from streams.operators import admit, capture, forest, lookups, probe, verify
from streams.operators.messages import CandidatePair, DocumentPayload, SketchedPage
from streams.page import Rejected
from streams.settings import Settings
from streams.urls import host_prefix

SKETCHES_CACHED = 20_000  # of candidates: the members of crowded clusters are asked for again and again


class BatchReport(msgspec.Struct, frozen=True):
    """What became of a batch."""

    pages: int
    new: int  # documents seen for the first time
    copies: int  # pages that came to hold a document which was kept already, of this URL or another
    unchanged: int  # pages whose URL held the same document last time
    near: int  # new documents that have a near-duplicate among those before them
    rejected: list[Rejected]


class Engine:
    """Runs the operators over a writer's store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        """Raises StateRefused when the store was made with another scheme or by a newer version."""
        self.store = store
        self.settings = settings
        self.scheme = meta.claim_scheme(store, settings.scheme)
        self.counters = Counter(meta.counters(store))
        self.batches = 0  # applied since the start: what was read of the state before one of them may be out of date
        self._sketches: OrderedDict[bytes, list[Sketch]] = OrderedDict()

    def apply(
        self,
        sweep: Sweep,
        pages: Sequence[SketchedPage],
        rejected: Sequence[Rejected],
        last: Mapping[bytes, Capture] | None = None,
    ) -> tuple[Changes, BatchReport]:
        """Take a batch through the operators; the caller commits the changes together with its cursor.

        `last` is what `lookups.last_captures` gives for the pages' URLs, where that was asked since the last batch.
        """
        self.batches += 1
        resolved = capture.resolve(pages, lookups.captures_before(self.store, capture.revisit_lookups(pages)))
        if last is None:
            last = lookups.last_captures(self.store, capture.needs(pages))
        captured = capture.capture(resolved.pages, last)
        admitted = admit.admit(captured.sightings, *lookups.admission(self.store, captured.sightings))
        probed = self._probe(admitted.new)
        verified = self._verify(admitted.new, probed.pairs)
        changes = Changes()
        for part in (captured.changes, admitted.changes, probed.changes, verified.changes):
            changes.update(part)
        ids = {payload.document for payload in admitted.new}
        forest.join_all(self.store, verified.unions, changes, fresh=ids)
        self._account(sweep, captured, changes)
        # A text of just so many tokens counts as well: its document is the same as that of a longer one, cut.
        most = self.settings.limits.tokens_max
        self.counters["tokens_max"] += sum(document_row.tokens(payload.row) >= most for payload in admitted.new)
        refused = [*rejected, *resolved.unresolved]
        copies = len(captured.sightings) - len(ids)
        report = BatchReport(len(pages), len(ids), copies, captured.unchanged, _near(admitted.new, verified), refused)
        self._count(report, probed, verified, changes)
        return changes, report

    def _probe(self, new: Sequence[DocumentPayload]) -> probe.Probed:
        batch = probe.arrange(new, self.scheme.bucket_bytes)
        limits = self.settings.limits
        return probe.probe(
            batch,
            self.store.get_many(Family.BANDS, batch.keys),
            postings_max=limits.bucket_postings_max,
            candidates_max=limits.candidates_max,
        )

    def _verify(self, new: Sequence[DocumentPayload], pairs: Sequence[CandidatePair]) -> verify.Verified:
        wanted = {pair.prefix for pair in pairs}
        asked = {pair.document for pair in pairs}
        asking: dict[bytes, Sketch] = {}
        candidates: dict[bytes, list[Sketch]] = {}
        for payload in new:
            prefix = payload.document[:PREFIX_BYTES]
            if payload.document not in asked and prefix not in wanted:
                continue
            self._sketches.pop(prefix, None)  # a second document of one prefix: read both anew next time
            sketch = document_row.decode(payload.document, payload.row).sketch
            asking[payload.document] = sketch
            candidates.setdefault(prefix, []).append(sketch)
        for prefix, held in self._stored_sketches(sorted(wanted)).items():
            candidates.setdefault(prefix, []).extend(held)
        return verify.verify(pairs, asking, candidates, self.settings.policy.threshold)

    def _stored_sketches(self, prefixes: Sequence[bytes]) -> dict[bytes, list[Sketch]]:
        """Sketches by prefix, through a cache of those asked for last."""
        found = {prefix: held for prefix in prefixes if (held := self._sketches.get(prefix))}
        missing = [prefix for prefix in prefixes if prefix not in found]
        for prefix, rows in zip(missing, self.store.scan_prefixes(Family.DOCUMENTS, missing), strict=True):
            if rows:
                found[prefix] = [document_row.decode(key, value).sketch for key, value in rows]
        for prefix, held in found.items():
            self._sketches[prefix] = held
            self._sketches.move_to_end(prefix)
        while len(self._sketches) > SKETCHES_CACHED:
            self._sketches.popitem(last=False)
        return found

    def _account(self, sweep: Sweep, captured: capture.Captured, changes: Changes) -> None:
        """Count captures by host; one that was there already, from a page handed in twice, counts once."""
        hosts = Counter(host_prefix(c.key) for c in captured.captures)
        there = lookups.known(self.store, Family.CAPTURES, captured.repeated)
        hosts.subtract(host_prefix(row) for row in there)
        sweeps.add_hosts(self.store, changes, sweep.number, hosts)

    def _count(self, report: BatchReport, probed: probe.Probed, verified: verify.Verified, changes: Changes) -> None:
        self.counters.update(
            pages=report.pages,
            documents=report.new,
            unchanged=report.unchanged,
            near_duplicates=report.near,
            rejected=len(report.rejected),
            pairs_verified=verified.compared,
            bucket_postings_max=probed.postings_dropped,
            candidates_max=probed.candidates_dropped,
        )
        meta.put_counters(changes, dict(self.counters))
        if probed.postings_dropped:
            meta.put_full_buckets(changes, self.settings.limits.bucket_postings_max)


def _near(new: Sequence[DocumentPayload], verified: verify.Verified) -> int:
    """Of each edge the document that came later, so that the count is the same however pages fall into batches."""
    order = {payload.document: at for at, payload in enumerate(new)}
    edges = verified.changes.family(Family.EDGES)
    return len(
        {max(edge[:ID_BYTES], edge[ID_BYTES:], key=lambda document: order.get(document, -1)) for edge in edges}
    )
