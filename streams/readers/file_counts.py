"""Count the pages, other responses and rejected records of each input file, to report files without pages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import structlog

from streams.page import NotAPage, Rejected
from streams.terminal.escape import pluralise

log = structlog.get_logger(__name__)
FILES_NAMED_MAX = 5
POSTPONED_RESPONSES_MAX = 100_000  # responses that are not pages, kept in memory until the first page


class FileCounts:
    """The counts of one run. They use memory per file and per rejection reason, not per record."""

    def __init__(self) -> None:
        self.files_with_pages: set[str] = set()
        self._not_pages: Counter[str] = Counter()  # number of responses that are not pages, for each file
        self._media_types: dict[str, str] = {}  # media type of the first response that is not a page, for each file
        self._rejections: defaultdict[str, Counter[str]] = defaultdict(Counter)  # counts by reason, for each file
        self._details: dict[tuple[str, str], str] = {}  # detail of the first rejection, by file and reason

    def add_page(self, source: str) -> None:
        self.files_with_pages.add(source)

    def add_not_a_page(self, item: NotAPage) -> None:
        source = item.origin.source
        self._not_pages[source] += 1
        self._media_types.setdefault(source, item.mime or "unknown media type")

    def add_rejected(self, item: Rejected) -> None:
        source = item.origin.source
        self._rejections[source][item.reason] += 1
        self._details.setdefault((source, item.reason), item.detail)

    def rejections(self) -> dict[str, int]:
        """Return the number of rejected records by reason."""
        return dict(sum(self._rejections.values(), Counter[str]()))

    def describe(self, files: Sequence[str]) -> str:
        """Return a phrase that says how many records of these files are not pages or were rejected, with examples."""
        not_pages = sum(self._not_pages[name] for name in files)
        rejected, example = self._most_frequent_rejection(files)
        if not_pages:
            media_type = next(self._media_types[name] for name in files if name in self._media_types)
            clause = "that is not a page" if not_pages == 1 else "that are not pages"
            examples = media_type if not_pages == 1 else f"such as {media_type}"
            suffix = f", and rejected {pluralise(rejected, 'record')} ({example})" if rejected else ""
            return f"read {pluralise(not_pages, 'response')} {clause} ({examples}){suffix}"
        if not rejected:
            return "read 0 records"
        return f"read {pluralise(rejected, 'record')} and rejected {'all' if rejected > 1 else 'it'} ({example})"

    def _most_frequent_rejection(self, files: Sequence[str]) -> tuple[int, str]:
        """Return the number of rejected records, and the most frequent reason with an example."""
        reasons = sum((self._rejections.get(name, Counter()) for name in files), Counter[str]())
        if not reasons:
            return 0, ""
        reason, count = reasons.most_common(1)[0]
        detail = next(self._details[name, reason] for name in files if (name, reason) in self._details)
        total = reasons.total()
        return total, f"{reason}: {detail}" if count == total else f"{count:,} as {reason}: {detail}"

    def warn_about_files_without_pages(self, files: Sequence[str]) -> int:
        """Log a warning for each of the first few files without pages. Return the number of all such files."""
        without_pages = [name for name in files if name not in self.files_with_pages]
        for name in without_pages[:FILES_NAMED_MAX]:
            log.warning("a file contains no page", file=name, result=self.describe([name]))
        if len(without_pages) > FILES_NAMED_MAX:
            log.warning("more files contain no page", files=len(without_pages) - FILES_NAMED_MAX)
        return len(without_pages)


def join_names(files: Sequence[str]) -> str:
    """Return a phrase with the first few file names and the number of other files."""
    names = ", ".join("standard input" if name == "-" else name for name in files[:FILES_NAMED_MAX])
    others = len(files) - FILES_NAMED_MAX
    return f"{names} and {pluralise(others, 'more file')}" if others > 0 else names
