"""Editors' decisions: an editor knows where a page moved, or that it is gone, and overrides the ranking of `find`.

decision_file ─▶ recording ─▶ `decide` (streams.operators), in this process or at the owner of the URL
                              listing, for export and training
"""

from streams.decisions.decision_file import read_decisions
from streams.decisions.listing import ListedDecision, list_decisions
from streams.decisions.recording import DecisionChanges, compute_changes, gone, moved, removed

__all__ = [
    "DecisionChanges",
    "ListedDecision",
    "compute_changes",
    "gone",
    "list_decisions",
    "moved",
    "read_decisions",
    "removed",
]
