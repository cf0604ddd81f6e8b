"""A later sweep of some sites of the synthetic corpus, in which pages have moved, changed and gone.

    python -m bench.recrawl --grown 1000000 --sweep 7 --asked asked.jsonl > sweep.jsonl

`asked` gets a line for each URL that the sweep no longer holds: `{"url", "moved"}`, where `moved` is the page's new URL,
or null for one that is gone. These are what `find` is asked for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

import msgspec
import numpy as np

from bench.generator import U64, Shape, lines, pages_at, sites_of
from streams.page import Page

SITES, SITE_PAGES_MAX, PAGES_MAX = 40, 3_000, 20_000
MOVED, GONE, CHANGED = 0.10, 0.05, 0.10  # shares of a site's pages; the rest is as it was
_STRIDE = 1 << 17


def chosen(shape: Shape, grown: int, seed: int) -> U64:
    """Indexes of all pages of some sites of a corpus of `grown` pages; large sites are likelier, as readers are."""
    sites = np.concatenate([sites_of(shape, at, min(at + _STRIDE, grown)) for at in range(0, grown, _STRIDE)])
    rng = np.random.default_rng(seed)
    found: list[U64] = []
    for site in dict.fromkeys(sites[rng.integers(0, grown, 20 * SITES)].tolist()):
        held = np.flatnonzero(sites == site).astype(np.uint64)
        if len(held) <= SITE_PAGES_MAX and sum(map(len, found)) + len(held) <= PAGES_MAX:
            found.append(held)
        if len(found) == SITES:
            break
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.uint64)


def recrawl(shape: Shape, grown: int, sweep: int) -> Iterator[tuple[str, Page | None]]:
    """Each old URL with the page that the sweep fetched for it: None when it is gone."""
    indexes = chosen(shape, grown, sweep)
    changing = msgspec.structs.replace(shape, changed_share=CHANGED)
    rng = np.random.default_rng(sweep)
    for page, chance in zip(pages_at(changing, indexes, sweep=sweep), rng.random(len(indexes)).tolist(), strict=True):
        if chance < GONE:
            yield page.url, None
        elif chance < GONE + MOVED:
            yield page.url, msgspec.structs.replace(page, url=_moved(page.url, by_name=chance < GONE + MOVED / 2))
        else:
            yield page.url, page


def _moved(url: str, *, by_name: bool) -> str:
    """A new place on the same host: another folder, and where not `by_name` another name too."""
    host, _, path = url.partition("://")[2].partition("/")
    name = path.rpartition("/")[2]
    if by_name:
        return f"https://{host}/archive/{name}"
    return f"https://{host}/posts/{name.rpartition('-')[2].removesuffix('.html')}/"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a later sweep of some sites as JSONL to standard output.")
    parser.add_argument("--grown", type=int, required=True, help="pages that the corpus has by now")
    parser.add_argument("--sweep", type=int, required=True, help="number of the sweep, which is also its seed")
    parser.add_argument("--asked", type=argparse.FileType("w"), required=True, help="where dead URLs are listed")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus")
    given = parser.parse_args()
    for url, page in recrawl(Shape(seed=given.seed), given.grown, given.sweep):
        if page is None or page.url != url:
            given.asked.write(json.dumps({"url": url, "moved": page.url if page else None}) + "\n")
        if page is not None:
            sys.stdout.buffer.writelines(lines(iter([page])))


if __name__ == "__main__":
    main()
