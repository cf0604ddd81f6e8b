"""The progress of one input in one sweep: where reading resumes, and the counts so far."""

from __future__ import annotations

from collections import Counter

import msgspec

from streams.engine.batcher import Batch
from streams.engine.embedded import BatchReport
from streams.readers.position import InputMark, Position


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one input, committed with every batch. Position and mark are None before the first batch."""

    position: Position | None = None
    mark: InputMark | None = None
    finished: bool = False
    pages: int = 0
    new: int = 0
    copies: int = 0
    unchanged: int = 0
    near: int = 0
    textless: int = 0
    rejected: dict[str, int] = {}  # by reason

    def advanced(self, batch: Batch, report: BatchReport) -> Cursor:
        """Return the cursor after a batch."""
        pages = len(batch.items)
        with_document = report.new + report.copies + report.unchanged
        reasons = Counter(item.reason for item in report.rejected)
        return Cursor(
            position=batch.position,
            mark=batch.mark,
            pages=self.pages + pages,
            new=self.new + report.new,
            copies=self.copies + report.copies,
            unchanged=self.unchanged + report.unchanged,
            near=self.near + report.near,
            textless=self.textless + pages - with_document - len(report.rejected),
            rejected=dict(Counter(self.rejected) + reasons),
        )
