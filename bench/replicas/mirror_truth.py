"""Build hosts whose mirrors are known: manuals, copied in the ways of the levels 1 to 5, and unrelated hosts."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bench.replicas import debian_docs, javadocs

Pages = dict[str, str]  # path -> HTML; an empty string is a stored 404
SITE_PAGES_MAX, SITE_PAGES_MIN = 100, 25
PAGE_BYTES_MAX = 60_000  # larger pages are left out, to save time
COPIES = 30
_TEXT = re.compile(r">([^<]+)<")
_WORD = re.compile(r"[A-Za-z]{2,}")
_OPAQUE = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_BODY_END = re.compile(r"</body>", re.IGNORECASE)


class Host(NamedTuple):
    """A host, and the site of which it is a copy. A host without copies is a family of its own."""

    name: str
    family: str
    pages: Pages


class Truth(NamedTuple):
    """All hosts, and the level of each replicated pair (site, copy)."""

    hosts: list[Host]
    levels: dict[tuple[str, str], str]
    copies: list[str]  # names of identical hosts


def build(archives: Path, seed: int, unrelated: int) -> Truth:
    """Replicate about 40 manuals, and build `unrelated` further hosts."""
    rng = random.Random(seed)
    sites, texts = _sites(archives, rng)
    return replicate(sites, texts, rng, unrelated)


def replicate(sites: dict[str, Pages], texts: list[str], rng: random.Random, unrelated: int) -> Truth:
    """Replicate sites: the largest one identically, the others in the ways of all levels.

    `texts` are pages of further hosts.
    """
    sites = dict(sites)
    copied_site = max(sorted(sites), key=lambda name: len(sites[name]))
    copied_pages = sites.pop(copied_site)
    hosts = [Host(f"copy{number}.{copied_site}.example", copied_site, copied_pages) for number in range(COPIES)]
    copies = [host.name for host in hosts]
    levels = {}
    for name, pages in sites.items():
        original = Host(f"www.{name}.example", name, pages)
        hosts.append(original)
        for number, (level, copy) in enumerate(_replicas(rng), start=1):
            copied = Host(_copy_name(name, number, rng), name, copy(pages, rng))
            hosts.append(copied)
            levels[original.name, copied.name] = level
    hosts += islice(_unrelated(rng, texts), unrelated)
    return Truth(hosts, levels, copies)


def _copy_name(site: str, number: int, rng: random.Random) -> str:
    return rng.choice(
        (f"mirror{number}.{site}.example", f"{site}-{number}.org.example", f"m{number}-{site}.example:8080")
    )


def _sites(archives: Path, rng: random.Random) -> tuple[dict[str, Pages], list[str]]:
    """Return the sites, and the HTML of the pages that no site contains, for unrelated hosts."""
    sites: dict[str, Pages] = {}
    rest: list[str] = []
    for name, all_pages in _packages(archives):
        pages = {path: html for path, html in all_pages if len(html) <= PAGE_BYTES_MAX}
        if len(pages) < SITE_PAGES_MIN:
            continue
        size = min(len(pages), rng.randint(SITE_PAGES_MIN, SITE_PAGES_MAX))
        chosen = set(rng.sample(sorted(pages), size))
        sites[name] = {path: html for path, html in pages.items() if path in chosen}
        rest += [html for path, html in pages.items() if path not in chosen]
    rng.shuffle(rest)
    return sites, rest


def _packages(archives: Path) -> Iterator[tuple[str, Iterable[tuple[str, str]]]]:
    for package in debian_docs.PACKAGES:
        yield package.replace(".", "-"), debian_docs.read_pages(archives / "debs", package)
    for artifact, versions in {**javadocs.UNRELATED, **dict(islice(javadocs.TARGETS.items(), 10))}.items():
        name = artifact.split(":")[1]
        archive = javadocs.archive(archives / "jars", artifact, versions[-1])
        yield f"{name.lower()}-api", javadocs.read_pages(archive)


Copy = Callable[[Pages, random.Random], Pages]


def _replicas(rng: random.Random) -> list[tuple[str, Copy]]:
    """Return the copies to make of one site, with their levels."""
    partial = rng.sample((_copy_folders, _copy_with_soft_404s, _copy_with_404s, _copy_grafted), 2)
    return [
        ("1", lambda pages, _: dict(pages)),
        ("2", _with_other_bytes),
        ("3", rng.choice((_edited, _with_template, _partly_edited))),
        *(("4", copy) for copy in partial),
        ("5", _translated),
    ]


def _with_other_bytes(pages: Pages, rng: random.Random) -> Pages:
    """Return pages with the same text, as a server with other templates or clocks sends them."""
    return {
        path: html.replace("<p>", '<p class="text">') + f"\n<!-- served {rng.random()} -->\n"
        for path, html in pages.items()
    }


def _edited(pages: Pages, rng: random.Random) -> Pages:
    share = rng.uniform(0.005, 0.06)
    return {path: _edit(html, rng, share) for path, html in pages.items()}


def _partly_edited(pages: Pages, rng: random.Random) -> Pages:
    share = rng.uniform(0.1, 0.5)
    return {path: _edit(html, rng, 0.03) if rng.random() < share else html for path, html in pages.items()}


def _with_template(pages: Pages, rng: random.Random) -> Pages:
    banner = " ".join(_pseudo_word(str(rng.random())) for _ in range(12))
    return {path: _BODY_END.sub(lambda _: f"<p>{banner}</p></body>", html) for path, html in pages.items()}


def _edit(html: str, rng: random.Random, share: float) -> str:
    return _map_words(html, lambda word: _pseudo_word(word) if rng.random() < share else word)


def _copy_folders(pages: Pages, rng: random.Random) -> Pages:
    """Return a copy without some folders. Links to a few of their pages led the crawler to a 404."""
    lost = _lost_part(pages, rng)
    errors = set(rng.sample(sorted(lost), max(1, int(len(lost) * rng.uniform(0.05, 0.4)))))
    return {path: "" if path in lost else html for path, html in pages.items() if path not in lost or path in errors}


def _copy_with_404s(pages: Pages, rng: random.Random) -> Pages:
    """Return an edited copy that answers a third of the paths with 404."""
    lost = set(rng.sample(sorted(pages), len(pages) // 3))
    return {path: "" if path in lost else _edit(html, rng, 0.01) for path, html in pages.items()}


def _copy_with_soft_404s(pages: Pages, rng: random.Random) -> Pages:
    """Return a copy that answers the paths of some folders with an error page and status 200."""
    lost = _lost_part(pages, rng)
    error = (
        "<html><body><h1>Sorry</h1><p>We could not find the page that you requested on this server.</p></body></html>"
    )
    return {path: error if path in lost else html for path, html in pages.items()}


def _copy_grafted(pages: Pages, rng: random.Random) -> Pages:
    """Return a copy of some folders beside other pages, with 404s for a part of the rest."""
    copied = _copy_folders(pages, rng)
    own = {f"team/{number}.html": _article(rng) for number in range(len(pages) // 5)}
    return {**copied, **own}


def _lost_part(pages: Pages, rng: random.Random) -> set[str]:
    """Return the paths of whole folders, or of a range of a flat site: between a quarter and two thirds of all pages."""
    paths = sorted(pages)
    folders = sorted({path.rpartition("/")[0] for path in paths})
    rng.shuffle(folders)
    goal = rng.uniform(0.25, 0.6) * len(paths)
    lost: set[str] = set()
    for folder in folders:
        inside = {path for path in paths if path.rpartition("/")[0] == folder}
        if len(lost) + len(inside) <= goal * 1.2:
            lost |= inside
    if len(lost) < goal / 2:
        lost |= set(paths[: int(goal)])
    return lost


def _translated(pages: Pages, rng: random.Random) -> Pages:
    """Return pages in which each word is replaced by one of another language, and whose lengths vary."""
    language, deviation = str(rng.random()), rng.uniform(0.1, 0.4)
    return {path: _translate(html, language, rng.lognormvariate(0, deviation)) for path, html in pages.items()}


def _translate(html: str, language: str, factor: float) -> str:
    rng = random.Random(f"{language} {len(html)}")

    def translate(word: str) -> str:
        foreign = _pseudo_word(language + word.lower())
        if factor < 1:
            return foreign if rng.random() < factor else ""
        return f"{foreign} {_pseudo_word(foreign)}" if rng.random() < factor - 1 else foreign

    return _map_words(html, translate)


def _map_words(html: str, function: Callable[[str], str]) -> str:
    """Replace each word of the text between tags."""
    html = _OPAQUE.sub("", html)
    return _TEXT.sub(lambda text: ">" + _WORD.sub(lambda word: function(word[0]), text[1]) + "<", html)


def _pseudo_word(seed: str) -> str:
    number = zlib.crc32(seed.encode())
    return "".join(
        consonant + vowel
        for consonant, vowel in zip(
            (("bdfgklmnprstvz"[number >> shift & 7]) for shift in (0, 6, 12)),
            (("aeiou"[(number >> shift & 15) % 5]) for shift in (3, 9, 15)),
            strict=True,
        )
    ) + ("ndrslt"[(number >> 20) % 6] if number & 1 << 28 else "")


_COMMON_PATHS = ("index.html", "about", "contact", "robots.html", "privacy", "news/", "blog/", "search", "help.html")


def _unrelated(rng: random.Random, texts: list[str]) -> Iterator[Host]:
    """Yield hosts that are not mirrors, of several kinds in turn."""
    kinds = (_small_site, _small_site, _parked, _parked_with_paths, _forum, _template_site, _soft_404_site)
    number = 0
    while True:
        for kind in kinds:
            name = f"{kind.__name__.strip('_').replace('_', '-')}{number}.example"
            yield Host(name, name, kind(rng, texts, name))
            number += 1


def _small_site(rng: random.Random, texts: list[str], name: str) -> Pages:
    """Return a site with pages of its own, some of them at common paths."""
    paths = rng.sample(_COMMON_PATHS, rng.randint(3, len(_COMMON_PATHS)))
    paths += [f"{_pseudo_word(name + str(n))}/{n}.html" for n in range(rng.randint(2, 30))]
    return {path: texts.pop() if texts and rng.random() < 0.4 else _article(rng) for path in paths}


def _parked(_rng: random.Random, _texts: list[str], name: str) -> Pages:
    return {
        "": f"<p>The domain {name} is parked. Buy this domain today, or ask our team of experts for an offer.</p>"
    }


def _parked_with_paths(_rng: random.Random, _texts: list[str], _name: str) -> Pages:
    return dict.fromkeys(_COMMON_PATHS, "<p>This web site is under construction. Please come back in a few days.</p>")


def _forum(rng: random.Random, _texts: list[str], _name: str) -> Pages:
    """Return a forum: its paths are those of all forums with the same software."""
    topics = rng.sample(range(1, 60), rng.randint(15, 50))
    form = "<p>Log in to reply. Forgot your password? Register a new account to take part.</p>"
    return {f"viewtopic.php?t={topic}": _article(rng) + form for topic in topics}


def _template_site(rng: random.Random, _texts: list[str], _name: str) -> Pages:
    """Return a shop that shares a template, the same texts at some paths, and the paths of its products."""
    legal = " ".join(_pseudo_word(f"legal {n}") for n in range(150))
    footer = " ".join(_pseudo_word(f"footer {n}") for n in range(40))
    products = {f"products/{n}": _article(rng) + f"<p>{footer}</p>" for n in range(1, rng.randint(12, 30))}
    fixed = {path: f"<p>{legal} {path}</p><p>{footer}</p>" for path in ("privacy", "terms")}
    own = {path: _article(rng) + f"<p>{footer}</p>" for path in ("", "about", "contact")}
    return {**products, **fixed, **own}


def _soft_404_site(rng: random.Random, _texts: list[str], name: str) -> Pages:
    """Return a site that answers many paths with one page."""
    missing = dict.fromkeys(
        (*_COMMON_PATHS, "products/1", "products/2"), f"<p>Nothing is here. Go to the start of {name}.</p>"
    )
    return {**missing, **{f"a/{n}.html": _article(rng) for n in range(rng.randint(5, 20))}}


def _article(rng: random.Random) -> str:
    words = [_pseudo_word(str(rng.random())) for _ in range(int(rng.lognormvariate(4.6, 0.7)) + 10)]
    return f"<h1>{words[0]}</h1><p>{' '.join(words)}</p>"
