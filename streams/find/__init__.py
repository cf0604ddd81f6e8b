"""The lost and found: find where the pages of dead URLs are now."""

from streams.find.answer import Answer, Candidate, Evidence
from streams.find.finder import Finder
from streams.find.list_missing import missing_urls
from streams.find.warm_up import warm_up

__all__ = ["Answer", "Candidate", "Evidence", "Finder", "missing_urls", "warm_up"]
