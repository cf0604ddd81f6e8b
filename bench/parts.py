"""How often `similar` finds the page that a text is a part of, and the pages that are parts of a text.

    python -m bench.parts [--documents 250000] [--data-dir DIR]

Synthetic pages are ingested, or a state that is there is read. Then slices of stored texts are asked for, one part in
2, 4, ... of a text each, and stored texts put together, 2, 4, ... of them: of each the share of the right documents
that is among the matches.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from pathlib import Path

from bench.engine import one_process, scratch, take, write_pages
from state.families import Family
from state.store import Store
from state.view import View
from streams.query import similar
from streams.settings import Settings
from streams.sketch.sketcher import Sketcher

RATIOS = (2, 4, 8, 16, 32)
SLICES, TEXTS = 400, 1_500
_WORDS_MIN = 12  # of a slice: less is a shingle or two

RowQuery = Callable[[str], set[str]]


def drawn(view: View, rng: random.Random) -> tuple[list[str], list[str]]:
    """Ids (hex) and texts of documents drawn at random."""
    rows = (view.store.keys(Family.DOCUMENTS, b"", 1, rng.randbytes(16)) for _ in range(TEXTS))
    ids = list(dict.fromkeys(key for keys in rows for key in keys))
    texts = [held[1] if held else "" for held in view.titles_and_texts(ids)]
    return [each.hex() for each in ids], texts


def slices(ask: RowQuery, ids: list[str], texts: list[str], ratio: int, rng: random.Random) -> tuple[int, int]:
    """Of how many slices, one in `ratio` of a text, the text's document was found: (found, asked)."""
    found = asked = 0
    for document, text in zip(ids[:SLICES], texts, strict=False):
        words = text.split()
        length = len(words) // ratio
        if length >= _WORDS_MIN:
            start = rng.randrange(len(words) - length + 1)
            asked += 1
            found += document in ask(" ".join(words[start : start + length]))
    return found, asked


def together(ask: RowQuery, ids: list[str], texts: list[str], count: int) -> tuple[int, int]:
    """Of `count` texts put together, how many of their documents were found: (found, asked)."""
    found = asked = 0
    for start in range(0, min(len(ids) - count, SLICES * count), count):
        matches = ask(" ".join(texts[start : start + count]))
        asked += count
        found += sum(document in matches for document in ids[start : start + count])
    return found, asked


def report(store: Store, settings: Settings, seed: int) -> None:
    """Print a line a ratio."""
    view, sketcher, rng = View(store), Sketcher(settings.scheme), random.Random(seed)
    ids, texts = drawn(view, rng)

    def ask(text: str) -> set[str]:
        return {match.document for match in similar(view, settings, sketcher.sketch(text), limit=1_000)}

    print(f"{'1 in':>6} {'a slice finds its page':>24} {'pages put together are found':>30}")
    for ratio in RATIOS:
        slice_found, slice_asked = slices(ask, ids, texts, ratio, rng)
        found, asked = together(ask, ids, texts, ratio)
        print(f"{ratio:>6} {slice_found / max(1, slice_asked):>24.3f} {found / max(1, asked):>30.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how often similar finds parts and wholes.")
    parser.add_argument("--documents", type=int, default=250_000)
    parser.add_argument("--data-dir", type=Path, help="a state to ask; without it one is made of synthetic pages")
    parser.add_argument("--seed", type=int, default=5)
    given = parser.parse_args()
    settings = one_process()
    if given.data_dir is not None:
        with Store(given.data_dir, settings.store, writable=False) as store:
            report(store, settings, given.seed)
        return
    with scratch() as folder, Store(folder / "state", settings.store) as store:
        take(store, settings, write_pages(folder / "pages.jsonl", given.documents), "pages")
        report(store, settings, given.seed)


if __name__ == "__main__":
    main()
