"""Cancel sweeps of a local state, one durable write per removal."""

from __future__ import annotations

from functools import partial

from state.model import Sweep
from state.rows import RowStore
from streams import forgetting


def cancel(store: RowStore, sweep: Sweep) -> forgetting.Forgotten:
    """Remove everything that a sweep added."""
    return forgetting.apply(forgetting.cancel_sweep(store, sweep), partial(store.write, sync=True))


def finish_cancelling(store: RowStore) -> None:
    """Finish the cancellations that a crash interrupted."""
    forgetting.apply(forgetting.finish_cancelling(store), partial(store.write, sync=True))
