"""List the inputs that must be ingested again after a repair has removed batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from state import meta, sweeps
from state.model import Sweep, SweepState
from state.rows import RowReader
from streams.engine.ingest import Cursor


class LostInput(msgspec.Struct, frozen=True):
    """An input whose ingest was set back or is incomplete."""

    sweep: str
    source: str  # a file of the input: the last one that was read; empty if unknown


def lost_inputs(
    removed_cursors: Mapping[str, bytes], removed_sweeps: Sequence[Sweep], repaired: RowReader
) -> list[LostInput]:
    """Return the inputs with removed batches, and the inputs of open sweeps that were not read completely."""
    cursors = {**meta.cursors(repaired), **removed_cursors}
    sweeps_by_number = {sweep.number: sweep for sweep in (*removed_sweeps, *sweeps.all_sweeps(repaired))}
    lost = []
    for name in sorted(cursors):
        sweep = sweeps_by_number.get(int(name.partition(":")[0]))
        cursor = msgspec.json.decode(cursors[name], type=Cursor)
        is_incomplete = not cursor.finished and sweep is not None and sweep.state is SweepState.OPEN
        if is_incomplete or name in removed_cursors:
            source = cursor.position.source if cursor.position is not None else ""
            lost.append(LostInput(sweep.name if sweep is not None else "", source))
    return lost
