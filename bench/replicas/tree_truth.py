"""Build a crawl with known replicated directories, from the documentation in packages of Debian and Maven.

    grafted    a tree of pages, copied under another parent directory of another host
    renamed    a tree of pages whose copy has another name, on the same host or another one
    versions   releases of one manual side by side, which are replicas if most pages resemble each other

All parent directories contain other pages, which are not replicated, so that the boundary of each pair is known.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple

from bench.replicas import debian_docs, javadocs

GRAFTED, RENAMED = 110, 75
HOSTS = 70
TREE_PAGES_MIN, TREE_PAGES_MAX = 8, 70
PAGE_CHARACTERS_MAX = 40_000  # larger pages only take time
VERSION_TREES = 12
PARENTS = ("docs", "lib/manuals", "pub", "mirror/2019/packages", "vendor/doc", "~maria/notes", "reference", "a/b")
NEW_NAMES = ("manual-old", "handbook", "v2", "latest", "archive-2018", "copy_of_docs", "documentation", "Doku")
MISSING = (0.1, 0.5)  # smallest and largest share of a tree's pages

Pages = dict[str, str]  # path or URL -> HTML


class TreePair(NamedTuple):
    """Two URL prefixes below which the same paths were placed."""

    kind: str
    a: str
    b: str


class Crawl(NamedTuple):
    """The crawled pages and the trees among them."""

    pages: Pages
    pairs: list[TreePair]


def build(archives: Path, seed: int, *, incomplete: bool) -> Crawl:
    """Place the trees. If `incomplete`, a share of 10 to 50 % of each tree's pages is missing."""
    rng = random.Random(seed)
    trees = _trees(archives)
    kinds = ["grafted"] * GRAFTED + ["renamed"] * RENAMED
    if len(trees) < len(kinds):
        raise SystemExit(f"the packages contain {len(trees)} trees, but {len(kinds)} are needed")
    crawl = Crawl({}, [])
    for kind, (name, tree) in zip(kinds, rng.sample(trees, len(kinds)), strict=True):
        _place_pair(crawl, kind, name, tree, rng)
    for name, versions in _version_trees(archives, rng):
        _place_versions(crawl, name, versions, rng)
    if incomplete:
        _remove_pages(crawl, rng)
    return crawl


def _trees(archives: Path) -> list[tuple[str, Pages]]:
    """Return the names and pages of disjoint directories: no page is in two trees."""
    packages = []
    for package in debian_docs.PACKAGES:
        packages.append((package, _small_pages(debian_docs.read_pages(archives / "debs", package))))
    for artifact, versions in {**javadocs.UNRELATED, **javadocs.TARGETS}.items():
        archive = javadocs.archive(archives / "jars", artifact, versions[-1])
        packages.append((artifact.split(":")[1], _small_pages(javadocs.read_pages(archive))))
    return [tree for name, pages in packages for tree in _disjoint_directories(name, pages)]


def _small_pages(pages: Iterable[tuple[str, str]]) -> Pages:
    return {path: html for path, html in pages if len(html) <= PAGE_CHARACTERS_MAX}


def _disjoint_directories(package: str, pages: Pages) -> Iterator[tuple[str, Pages]]:
    """Yield the topmost directories with TREE_PAGES_MIN to TREE_PAGES_MAX pages.

    Of a larger directory, the pages directly in it form a tree, of at most TREE_PAGES_MAX pages.
    """
    if len(pages) <= TREE_PAGES_MAX:
        if len(pages) >= TREE_PAGES_MIN:
            yield package, pages
        return
    by_child: defaultdict[str, Pages] = defaultdict(dict)
    for path, html in sorted(pages.items()):
        child, slash, rest = path.partition("/")
        by_child[child if slash else ""][rest if slash else path] = html
    direct = dict(islice(by_child.pop("", {}).items(), TREE_PAGES_MAX))
    yield from _disjoint_directories(package, direct)
    for child, below in by_child.items():
        yield from _disjoint_directories(child, below)


def _place_pair(crawl: Crawl, kind: str, name: str, tree: Pages, rng: random.Random) -> None:
    """Place a tree and its copy, each below a parent directory with pages of its own."""
    parents = rng.sample(PARENTS, 2)
    hosts = rng.sample(range(HOSTS), 2) if kind == "grafted" or rng.random() < 0.5 else [rng.randrange(HOSTS)] * 2
    number = len(crawl.pairs)  # two trees never share a parent directory
    names = (name, name if kind == "grafted" else f"{rng.choice(NEW_NAMES)}")
    roots = []
    for host, parent, tree_name in zip(hosts, parents, names, strict=True):
        directory = f"https://host{host}.example/{parent}/{number}/"
        roots.append(f"{directory}{tree_name}/")
        crawl.pages.update({roots[-1] + path: html for path, html in tree.items()})
        _add_other_pages(crawl.pages, directory, len(tree), rng)
    crawl.pairs.append(TreePair(kind, *sorted(roots)))


def _add_other_pages(pages: Pages, directory: str, tree_pages: int, rng: random.Random) -> None:
    """Add pages that occur nowhere else: at least half as many as the tree has."""
    for number in range(rng.randint(tree_pages // 2, tree_pages) + 1):
        words = " ".join(
            f"{rng.choice('bdfgklmnprst')}{rng.choice('aeiou')}{rng.getrandbits(24):x}" for _ in range(80)
        )
        pages[f"{directory}{rng.choice(('', '', 'texts/'))}own{number}.html"] = f"<h1>{number}</h1><p>{words}</p>"


def _version_trees(archives: Path, rng: random.Random) -> Iterator[tuple[str, dict[str, Pages]]]:
    """Yield manuals with several releases."""
    artifacts = sorted(artifact for artifact, versions in javadocs.TARGETS.items() if len(versions) > 1)
    for artifact in rng.sample(artifacts, VERSION_TREES):
        versions = {}
        for version in javadocs.TARGETS[artifact]:
            pages = _small_pages(javadocs.read_pages(javadocs.archive(archives / "jars", artifact, version)))
            versions[version] = dict(sorted(pages.items())[: 3 * TREE_PAGES_MAX])
        yield artifact.split(":")[1].lower(), versions


def _place_versions(crawl: Crawl, name: str, versions: dict[str, Pages], rng: random.Random) -> None:
    directory = f"https://{name}.versions.example/{rng.choice(PARENTS)}/"
    for version, tree in versions.items():
        crawl.pages.update({f"{directory}{version}/{path}": html for path, html in tree.items()})
    for a, b in combinations(sorted(versions), 2):
        crawl.pairs.append(TreePair("versions", f"{directory}{a}/", f"{directory}{b}/"))


def _remove_pages(crawl: Crawl, rng: random.Random) -> None:
    """Remove a share of the pages below each root."""
    shares = {root: rng.uniform(*MISSING) for pair in crawl.pairs for root in (pair.a, pair.b)}
    for url in sorted(crawl.pages):
        root = next((url[: end + 1] for end in _slashes(url) if url[: end + 1] in shares), None)
        if root is not None and rng.random() < shares[root]:
            del crawl.pages[url]


def _slashes(url: str) -> Iterator[int]:
    return (position for position, character in enumerate(url) if character == "/")
