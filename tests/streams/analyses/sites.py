"""Generated sites for the tests of collections and avoid-lists."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tests.analysis_data import Page, page, prose


def manual(
    root: str, *, name: str = "manual", pages: int = 16, without: Collection[int] = (), edition: str = ""
) -> Iterator[Page]:
    """Yield the pages of a copy of a manual below `root`: an index and numbered pages, which link to each other.

    Pages `without` are missing. With an `edition`, the texts differ in a few words.
    """
    numbers = [number for number in range(pages) if number not in without]
    suffix = f" {edition}" if edition else ""
    links = [f"{root}{number}.html" for number in range(pages)]
    yield page(f"{root}index.html", prose(name, "index") + suffix, links=links)
    for number in numbers:
        neighbours = [f"{root}index.html", f"{root}{(number + 1) % pages}.html", f"{root}{(number + 5) % pages}.html"]
        yield page(f"{root}{number}.html", prose(name, number) + suffix, links=neighbours)


def unrelated(root: str, count: int = 20) -> Iterator[Page]:
    """Yield linked pages that occur once."""
    for number in range(count):
        yield page(f"{root}{number}.html", prose(root, number), links=[f"{root}{(number + 1) % count}.html", root])
