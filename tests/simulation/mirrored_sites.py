"""Generate sites with a mirror, a copied manual and pages that occur once, as several sweeps capture them."""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

from state.codecs import link_chunk
from state.model import Link
from streams.operators.messages import SketchedPage
from streams.sketch.links import LinkPayload
from streams.urls import url_key
from tests.simulation import corpus

SWEEPS = 2
MENU_WORDS, WORDS, EDITIONS = 8, 40, 3


class Directory(NamedTuple):
    """A directory of a host. Directories with the same content are copies."""

    root: str
    content: str
    paths: list[str]


@cache
def _text(content: str, path: str, edition: int) -> corpus.Text:
    """Return the text of a page. Two editions differ in a word; all pages have the same menu."""
    rng = random.Random(f"{content} {path}")
    words = [f"menu{n}" for n in range(MENU_WORDS)] + [f"word{rng.randrange(3_000)}" for _ in range(WORDS)]
    if edition:
        words[MENU_WORDS + 10 * edition] = f"edition{edition}"
    return corpus.document(" ".join(words))


def _directories(rng: random.Random) -> list[Directory]:
    manual = ["index.html", *(f"{part}/{n}.html" for part in ("a", "b") for n in range(rng.randint(8, 10)))]
    news = [f"{n}.html" for n in range(rng.randint(3, 6))]
    return [
        Directory("https://site.example.org/docs/", "manual", manual),
        Directory("https://mirror.example.net/docs/", "manual", manual),
        Directory("https://copy.example.com/pub/m/", "manual", manual),
        Directory("https://site.example.org/news/", "news", news),
        Directory("https://mirror.example.net/news/", "news", news),
        Directory("https://other.example.com/blog/", "blog", news),
    ]


def pages(rng: random.Random) -> list[SketchedPage]:
    """Generate pages in order of sweep and time. Sweeps miss some pages; other pages change, fail or redirect."""
    captured = [(directory, path) for directory in _directories(rng) for path in directory.paths]
    missing_share, changed_share = rng.choice([0.0, 0.05]), rng.choice([0.0, 0.1, 0.3])
    editions = dict.fromkeys((directory.root + path for directory, path in captured), 0)
    result: list[SketchedPage] = []
    for sweep in range(1, SWEEPS + 1):
        rng.shuffle(captured)
        for directory, path in captured:
            url, time = directory.root + path, 1_000 * (len(result) + 1)
            if rng.random() < changed_share:
                editions[url] = rng.randrange(EDITIONS)
            if rng.random() < missing_share:
                continue
            if rng.random() < 0.02:
                result.append(SketchedPage(capture=corpus.capture(url, sweep, time, rng.choice([301, 404, 500]))))
                continue
            text = _text(directory.content, path, editions[url])
            links = _links(directory, path)
            result.append(corpus.page(url, sweep, time, text, title=rng.choice("ab"), links=links))
    return result


def _links(directory: Directory, path: str) -> LinkPayload:
    """Return links to the first page and to two other pages of a directory."""
    paths = directory.paths
    position = paths.index(path)
    targets = dict.fromkeys([paths[0], paths[(position + 1) % len(paths)], paths[(position + 5) % len(paths)]])
    links = [Link(target=url_key(directory.root + target), anchor=target) for target in targets]
    return LinkPayload([link_chunk.encode(links)])
