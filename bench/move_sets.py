"""Build test sets for `bench.moves` from the documentation in source archives, with copies of every page.

    python -m bench.move_sets OUT ARCHIVE ARCHIVE [ARCHIVE...] [--docs FOLDER]

The archives are versions of one project, the oldest first. For every layout, one set is written to OUT/LAYOUT:

    plain     the site shows the newest version
    beside    `/latest/` shows the newest version, and `/vN/` appears one version later as a frozen copy
    within    the same, but the newest version is at the root of the site
    release   `/latest/` shows the newest version, and `/vN/` appears together with it
    skipped   as `release`, but every second version was never crawled under `/latest/`
    renamed   `/stable/` moves to `/current/` as a whole, while the trees of two neighbouring versions appear
    numbered  `/docs/2.x/` moves to `/docs/lts/` with edits, beside `/docs/1.x/`, while `/docs/3.x/` appears
    archived  `/guide/` is replaced by the next version in `/manual/`, and frozen under `/v0/` at the same time
    manuals   `/docs/vN/` moves to `/manual/vN/` as a whole, for all N
    mirror    `within`'s newest version, and a second host with a copy that is one version older
    languages `/en/` shows the newest version, and `/de/` keeps the paths of the version before

The truth of `plain` is made from the texts: a page that disappeared moved to the page with most of its shingles,
unless there are several such pages. The other layouts use this truth, within the living tree.
"""

from __future__ import annotations

import argparse
import codecs
import json
import re
import tarfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import zstandard

Pages = dict[str, str]  # path -> text
Truth = dict[str, tuple[str, str]]  # old path or URL -> (new path or URL, kind)

SITE, MIRROR = "https://manual.example", "https://mirror.example.net"
_SUFFIXES = (".rst", ".txt", ".md")
_WORDS_MIN, _WORDS_MAX = 8, 40_000
_MOVED_MIN, _FOLDED_MIN, _GONE_MAX = 0.3, 0.6, 0.15
_MARGIN_MIN = 0.1  # a page whose two best targets are closer to each other than this has no certain truth


def read_version(archive: Path, docs: str) -> Pages:
    """Return the pages of the documentation folder of one archive, by path without suffix."""
    pages: Pages = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            path = member.name.split("/", 1)[-1]
            if not (member.isfile() and path.startswith(docs) and path.endswith(_SUFFIXES)):
                continue
            text = tar.extractfile(member).read().decode("utf-8", "replace")  # type: ignore[union-attr]
            if _WORDS_MIN <= len(text.split()) <= _WORDS_MAX:
                pages[path[len(docs) :].strip("/").rsplit(".", 1)[0]] = text
    return pages


def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], words[3:], strict=False)) or {tuple(words)}


def moves_between(old: Pages, new: Pages) -> Truth:
    """Return where the pages that `new` lacks are, as far as the texts show it: (path, kind), or ("", "gone")."""
    new_shingles = {path: shingles(text) for path, text in new.items()}
    truth: Truth = {}
    for path in old.keys() - new.keys():
        own = shingles(old[path])
        gains = []
        for target, theirs in new_shingles.items():
            shared = len(own & theirs)
            before = len(own & shingles(old[target])) if target in old and shared else 0
            resemblance = shared / len(own | theirs) if target not in old else 0.0
            gains.append((max(resemblance, (shared - before) / len(own) - 0.2), shared / len(own), target))
        gains.sort(reverse=True)
        (best, contained, target), (second, _, _) = gains[:2]
        if max(gain[1] for gain in gains) < _GONE_MAX:
            truth[path] = "", "gone"
        elif best - second >= _MARGIN_MIN and (best >= _MOVED_MIN or contained >= _FOLDED_MIN):
            truth[path] = target, "merged" if target in old else "moved"
    sources = Counter(target for target, _ in truth.values())
    return {
        path: (target, "moved-n1" if kind == "moved" and sources[target] > 1 else kind)
        for path, (target, kind) in truth.items()
    }


def find_moves(versions: list[Pages]) -> Truth:
    """Return the last path of all pages that disappeared in one of the versions. Uncertain pages are left out."""
    steps = [moves_between(old, new) for old, new in pairwise(versions)]
    truth: Truth = {}
    for number, step in enumerate(steps):
        for path, move in step.items():
            last_path: str | None = move[0]
            kind = move[1]
            for later in range(number + 1, len(steps)):
                if last_path and last_path not in versions[later + 1]:
                    last_path, later_kind = steps[later].get(last_path, (None, ""))
                    kind = "gone" if later_kind == "gone" else kind
            if last_path is not None and path not in versions[-1]:
                truth[path] = last_path, kind
    return truth


def pseudo_translation(text: str) -> str:
    """Replace all words in prose, but not in indented lines, which are mostly code."""
    return "\n".join(line if line.startswith("  ") else codecs.encode(line, "rot13") for line in text.splitlines())


def under(prefix: str, pages: Pages) -> Pages:
    return {f"{SITE}{prefix}{path}.html": text for path, text in pages.items()}


def frozen(versions: list[Pages], prefix: str = "/v") -> Pages:
    return {url: text for n, pages in enumerate(versions) for url, text in under(f"{prefix}{n}/", pages).items()}


def beside(versions: list[Pages], living: str, delay: int) -> list[Pages]:
    """Return sweeps of a living tree, and of frozen trees that appear `delay` versions later."""
    return [
        under(living, pages) | frozen(versions[: max(0, number + 1 - delay)]) for number, pages in enumerate(versions)
    ]


def skipped(versions: list[Pages]) -> list[Pages]:
    return [sweep for number, sweep in enumerate(beside(versions, "/latest/", 0)) if number in {0, len(versions) - 1}]


def edited(pages: Pages) -> Pages:
    """Return pages of which the longer ones lack every twentieth line."""
    return {
        path: "\n".join(line for n, line in enumerate(text.splitlines()) if n % 20 != 10)
        for path, text in pages.items()
    }


def renamed(versions: list[Pages]) -> list[Pages]:
    before, stable, after = versions[-3:]
    return [under("/stable/", stable), under("/current/", stable) | under("/v8/", before) | under("/v9/", after)]


def numbered(versions: list[Pages]) -> list[Pages]:
    before, middle, after = versions[-3:]
    return [
        under("/docs/2.x/", middle) | under("/docs/1.x/", before),
        under("/docs/lts/", edited(middle)) | under("/docs/1.x/", before) | under("/docs/3.x/", after),
    ]


def archived(versions: list[Pages]) -> list[Pages]:
    """Return two sweeps between which a new version in a new tree replaces the old tree, which is archived."""
    return [under("/guide/", versions[0]), under("/manual/", versions[1]) | under("/v0/", versions[0])]


def manuals(versions: list[Pages]) -> list[Pages]:
    return [frozen(versions, "/docs/v"), frozen(versions, "/manual/v")]


def mirror(versions: list[Pages]) -> list[Pages]:
    """Return sweeps of a site and of a mirror, which is first crawled in the second sweep and one version older."""
    sweeps = [under("/", pages) for pages in versions]
    for number in range(1, len(sweeps)):
        copy = under("/", versions[number - 1])
        sweeps[number] |= {url.replace(SITE, MIRROR): text for url, text in copy.items()}
    return sweeps


def languages(versions: list[Pages]) -> list[Pages]:
    sweeps = [under("/en/", pages) for pages in versions]
    for number in range(len(sweeps)):
        translated = {path: pseudo_translation(text) for path, text in versions[max(0, number - 1)].items()}
        sweeps[number] |= under("/de/", translated)
    return sweeps


LAYOUTS: dict[str, tuple[str, Callable[[list[Pages]], list[Pages]]]] = {  # living tree, sweeps
    "plain": ("/", lambda versions: [under("/", pages) for pages in versions]),
    "beside": ("/latest/", lambda versions: beside(versions, "/latest/", 1)),
    "within": ("/", lambda versions: beside(versions, "/", 1)),
    "release": ("/latest/", lambda versions: beside(versions, "/latest/", 0)),
    "skipped": ("/latest/", skipped),
    "mirror": ("/", mirror),
    "languages": ("/en/", languages),
}


def build(versions: list[Pages], layout: str) -> tuple[list[Pages], Truth]:
    """Return the sweeps and the truth of one layout, by URL."""
    if layout in {"renamed", "numbered"}:
        pairs = {path: (path, "moved") for path in versions[-2]}
        old_tree, new_tree = ("/stable/", "/current/") if layout == "renamed" else ("/docs/2.x/", "/docs/lts/")
        sweeps = renamed(versions) if layout == "renamed" else numbered(versions)
        return sweeps, to_urls(pairs, old_tree, new_tree)
    if layout == "archived":
        pairs = {path: (path, "moved") for path in versions[0].keys() & versions[1].keys()}
        return archived(versions), to_urls(pairs | find_moves(versions[:2]), "/guide/", "/manual/")
    if layout == "manuals":
        truth: Truth = {}
        for number, pages in enumerate(versions):
            pairs = {path: (path, "moved") for path in pages}
            truth |= to_urls(pairs, f"/docs/v{number}/", f"/manual/v{number}/")
        return manuals(versions), truth
    living, build_sweeps = LAYOUTS[layout]
    known = [versions[0], versions[-1]] if layout == "skipped" else versions
    return build_sweeps(versions), to_urls(find_moves(known), living, living)


def to_urls(truth: Truth, old_tree: str, new_tree: str) -> Truth:
    return {
        f"{SITE}{old_tree}{old}.html": (f"{SITE}{new_tree}{new}.html" if new else "", kind)
        for old, (new, kind) in truth.items()
    }


def write(folder: Path, sweeps: list[Pages], truth: Truth) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, pages in enumerate(sweeps):
        rows = (
            {"url": url, "fetched_at": f"{2010 + number}-01-01T00:00:00Z", "text": text}
            for url, text in pages.items()
        )
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"sweep-{number}-{2010 + number}.jsonl.zst").write_bytes(zstandard.compress(lines.encode()))
    rows_text = "".join(f"{old}\t{new}\t{kind}\n" for old, (new, kind) in sorted(truth.items()))
    (folder / "truth.tsv").write_text("old_url\tnew_url\tkind\n" + rows_text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("archives", type=Path, nargs="+", help="source archives of one project, the oldest first")
    parser.add_argument("--docs", default="docs/", help="folder of the documentation in the archives")
    args = parser.parse_args()
    versions = [read_version(archive, args.docs) for archive in args.archives]
    for layout in (*LAYOUTS, "renamed", "numbered", "archived", "manuals"):
        sweeps, truth = build(versions, layout)
        write(args.out / layout, sweeps, truth)
        print(f"{layout:10} {[len(pages) for pages in sweeps]} pages, {dict(Counter(k for _, k in truth.values()))}")


if __name__ == "__main__":
    main()
