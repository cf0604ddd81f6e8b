"""Measure how often `similar` finds the page that contains a text, and the pages that a text contains.

    python -m bench.parts [--documents 250000] [--data-dir DIR]

Synthetic pages are ingested, or an existing state is read. The queries are slices of stored texts (a half, a quarter,
...) and concatenations of 2, 4, ... stored texts. The figures are the shares of the expected documents that match.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path

from bench.engine import ingest_file, one_process_settings, temporary_folder, write_pages
from state.families import Family
from state.store import Store
from state.view import View
from streams.query import find_similar
from streams.settings import Settings
from streams.sketch.sketcher import Sketcher

RATIOS = (2, 4, 8, 16, 32)
SLICES, TEXTS = 400, 1_500
_WORDS_MIN = 12  # per slice; shorter slices have too few shingles

Search = Callable[[str], set[str]]


def draw_documents(view: View, rng: random.Random) -> tuple[list[str], list[str]]:
    """Return the ids (hex) and texts of random documents."""
    rows = (view.store.keys(Family.DOCUMENTS, b"", 1, rng.randbytes(16)) for _ in range(TEXTS))
    ids = list(dict.fromkeys(key for keys in rows for key in keys))
    texts = [stored[1] if stored else "" for stored in view.titles_and_texts(ids)]
    return [document.hex() for document in ids], texts


def slices(search: Search, ids: list[str], texts: list[str], ratio: int, rng: random.Random) -> tuple[int, int]:
    """Search for one slice per text, 1/`ratio` of its words. Return (hits, searches)."""
    hits = searches = 0
    for document, text in zip(ids[:SLICES], texts, strict=False):
        words = text.split()
        length = len(words) // ratio
        if length >= _WORDS_MIN:
            start = rng.randrange(len(words) - length + 1)
            searches += 1
            hits += document in search(" ".join(words[start : start + length]))
    return hits, searches


def concatenations(search: Search, ids: list[str], texts: list[str], count: int) -> tuple[int, int]:
    """Search for `count` concatenated texts at a time. Return (documents found, documents concatenated)."""
    hits = total = 0
    for start in range(0, min(len(ids) - count, SLICES * count), count):
        matches = search(" ".join(texts[start : start + count]))
        total += count
        hits += sum(document in matches for document in ids[start : start + count])
    return hits, total


def report(store: Store, settings: Settings, seed: int) -> None:
    """Print one line per ratio."""
    view, sketcher, rng = View(store), Sketcher(settings.scheme), random.Random(seed)
    ids, texts = draw_documents(view, rng)

    def search(text: str) -> set[str]:
        return {match.document for match in find_similar(view, settings, sketcher.sketch(text), limit=1_000)}

    print(f"{'1 in':>6} {'a slice finds its page':>24} {'concatenated pages are found':>30}")
    for ratio in RATIOS:
        slice_hits, searches = slices(search, ids, texts, ratio, rng)
        hits, total = concatenations(search, ids, texts, ratio)
        print(f"{ratio:>6} {slice_hits / max(1, searches):>24.3f} {hits / max(1, total):>30.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how often `similar` finds parts and wholes of texts.")
    parser.add_argument("--documents", type=int, default=250_000)
    parser.add_argument("--data-dir", type=Path, help="an existing state; default: a state of synthetic pages")
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()
    settings = one_process_settings()
    if args.data_dir is not None:
        with Store(args.data_dir, settings.store, writable=False) as store:
            report(store, settings, args.seed)
        return
    with temporary_folder() as folder, Store(folder / "state", settings.store) as store:
        ingest_file(store, settings, write_pages(folder / "pages.jsonl", args.documents), "pages")
        report(store, settings, args.seed)


if __name__ == "__main__":
    main()
