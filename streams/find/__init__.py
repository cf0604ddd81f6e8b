"""The lost and found: where did a URL go."""

from streams.find.answer import Answer, Candidate, Evidence
from streams.find.finder import Finder

__all__ = ["Answer", "Candidate", "Evidence", "Finder"]
