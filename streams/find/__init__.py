"""The lost and found: find where the pages of dead URLs are now."""

from streams.find.answer import Answer, Candidate, EditorDecision, Evidence
from streams.find.editor_decisions import decided_urls_without_pages
from streams.find.finder import Finder, warm_up
from streams.find.missing_rule import possibly_missing_urls

__all__ = [
    "Answer", "Candidate", "EditorDecision", "Evidence", "Finder", "decided_urls_without_pages",
    "possibly_missing_urls", "warm_up",
]  # fmt: skip
