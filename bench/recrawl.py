"""Generate a later sweep of some sites of the synthetic corpus, in which pages moved, changed or disappeared.

    python -m bench.recrawl --grown 1000000 --sweep 7 --asked asked.jsonl > sweep.jsonl

`--asked` names a file for the URLs that the sweep no longer contains, one line `{"url", "moved"}` per URL. `moved` is
the new URL of the page, or null if the page is gone. The benchmark passes these URLs to `find`.
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
MOVED, GONE, CHANGED = 0.10, 0.05, 0.10  # shares of a site's pages; the others stay the same
_STRIDE = 1 << 17


def choose_indexes(shape: Shape, grown: int, seed: int) -> U64:
    """Return the indexes of all pages of some sites, chosen with a probability proportional to their size."""
    sites = np.concatenate([sites_of(shape, at, min(at + _STRIDE, grown)) for at in range(0, grown, _STRIDE)])
    rng = np.random.default_rng(seed)
    chosen: list[U64] = []
    for site in dict.fromkeys(sites[rng.integers(0, grown, 20 * SITES)].tolist()):
        indexes = np.flatnonzero(sites == site).astype(np.uint64)
        if len(indexes) <= SITE_PAGES_MAX and sum(map(len, chosen)) + len(indexes) <= PAGES_MAX:
            chosen.append(indexes)
        if len(chosen) == SITES:
            break
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.uint64)


def recrawl(shape: Shape, grown: int, sweep: int) -> Iterator[tuple[str, Page | None]]:
    """Yield each old URL with the page that the sweep fetched for it, or None if the page is gone."""
    indexes = choose_indexes(shape, grown, sweep)
    changing = msgspec.structs.replace(shape, changed_share=CHANGED)
    rng = np.random.default_rng(sweep)
    for page, draw in zip(pages_at(changing, indexes, sweep=sweep), rng.random(len(indexes)).tolist(), strict=True):
        if draw < GONE:
            yield page.url, None
        elif draw < GONE + MOVED:
            yield page.url, msgspec.structs.replace(page, url=_new_url(page.url, same_name=draw < GONE + MOVED / 2))
        else:
            yield page.url, page


def _new_url(url: str, *, same_name: bool) -> str:
    """Return a new URL on the same host, in a different folder. Keep the file name only if `same_name` is true."""
    host, _, path = url.partition("://")[2].partition("/")
    name = path.rpartition("/")[2]
    if same_name:
        return f"https://{host}/archive/{name}"
    return f"https://{host}/posts/{name.rpartition('-')[2].removesuffix('.html')}/"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a later sweep of some sites as JSONL to standard output.")
    parser.add_argument("--grown", type=int, required=True, help="number of pages in the corpus")
    parser.add_argument("--sweep", type=int, required=True, help="number of the sweep, also used as its seed")
    parser.add_argument("--asked", type=argparse.FileType("w"), required=True, help="output file for dead URLs")
    parser.add_argument("--seed", type=int, default=1, help="seed of the corpus")
    args = parser.parse_args()
    for url, page in recrawl(Shape(seed=args.seed), args.grown, args.sweep):
        if page is None or page.url != url:
            args.asked.write(json.dumps({"url": url, "moved": page.url if page else None}) + "\n")
        if page is not None:
            sys.stdout.buffer.writelines(lines(iter([page])))


if __name__ == "__main__":
    main()
