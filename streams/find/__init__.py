"""The lost and found: find where the pages of dead URLs are now."""

from streams.find.answer import Answer, Candidate, Evidence
from streams.find.finder import Finder, warm_up
from streams.find.missing_rule import possibly_missing_urls

__all__ = ["Answer", "Candidate", "Evidence", "Finder", "possibly_missing_urls", "warm_up"]
