"""Forgetting: delete URLs, documents and cancelled sweeps, and rebuild only what depended on them."""

from streams.forgetting.removal import (
    Removal,
    RemovalTotals,
    cancel_sweep,
    commit_removals,
    finish_interrupted_removals,
    forget_document,
    forget_url,
)

__all__ = [
    "Removal",
    "RemovalTotals",
    "cancel_sweep",
    "commit_removals",
    "finish_interrupted_removals",
    "forget_document",
    "forget_url",
]
