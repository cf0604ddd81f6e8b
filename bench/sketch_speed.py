"""Compare the time from text to signature with common libraries: `python -m bench.sketch_speed`.

All libraries run on one core, in turn, on the same texts and shingles. lostfound is always timed from the text:
tokens, document id, signature and sample. Some peers are also timed from the text, with the shingling code that their
users write; the targets apply to these ratios. Other timings pass ready-made shingles to the peer in its preferred
form. They cover the signature alone and show how much of its time a peer spends in Python. The best round is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("RAYON_NUM_THREADS", "1")  # one core for each library

import datasketch
import gaoya
import rensa

from bench.generator import Shape, texts
from state.scheme import Scheme
from streams.sketch.sketcher import Sketcher

PERMUTATIONS = 128
TARGETS = {"rensa R, from text": 8.0, "datasketch, from text": 40.0}

Job = Callable[[], object]


def shingles(text: str, words: int) -> list[str]:
    tokens = text.lower().split()
    return [" ".join(tokens[i : i + words]) for i in range(max(1, len(tokens) - words + 1))]


def datasketch_sketch(tokens: Sequence[bytes]) -> object:
    minhash = datasketch.MinHash(num_perm=PERMUTATIONS)
    minhash.update_batch(tokens)
    return minhash.hashvalues


def rensa_r(tokens: list[str]) -> object:
    minhash = rensa.RMinHash(num_perm=PERMUTATIONS, seed=42)
    minhash.update(tokens)
    return minhash.digest()


def rensa_c(tokens: list[str]) -> object:
    minhash = rensa.CMinHash(num_perm=PERMUTATIONS, seed=42)
    minhash.update(tokens)
    return minhash.digest()


def gaoya_insert(shingled: Sequence[list[str]]) -> object:
    """Insert documents, because gaoya has no function that only computes a signature."""
    index = gaoya.minhash.MinHashStringIndex(
        hash_size=32, num_bands=PERMUTATIONS // 4, band_size=4, analyzer=lambda number: shingled[int(number)]
    )
    for number in range(len(shingled)):
        index.insert_document(number, str(number))
    return index


def jobs(corpus: list[str], scheme: Scheme) -> dict[str, Job]:
    words = scheme.shingle_words
    shingled = [shingles(text, words) for text in corpus]
    encoded = [[shingle.encode() for shingle in tokens] for tokens in shingled]
    sketcher = Sketcher(scheme)
    return {
        "lostfound, batch": lambda: sketcher.sketch_batch(corpus),
        "lostfound, one by one": lambda: [sketcher.sketch(text) for text in corpus],
        "datasketch update_batch": lambda: [datasketch_sketch(tokens) for tokens in encoded],
        "datasketch bulk": lambda: datasketch.MinHash.bulk(encoded, num_perm=PERMUTATIONS),
        "rensa R": lambda: [rensa_r(tokens) for tokens in shingled],
        "rensa R, batch": lambda: rensa.RMinHash.digest_matrix_from_token_sets(shingled, PERMUTATIONS, 42),
        "rensa R, batch rho": lambda: rensa.RMinHash.digest_matrix_from_token_sets_rho(shingled, PERMUTATIONS, 42),
        "rensa C": lambda: [rensa_c(tokens) for tokens in shingled],
        "gaoya, with insert": lambda: gaoya_insert(shingled),
        "datasketch, from text": lambda: [
            datasketch_sketch([s.encode() for s in shingles(text, words)]) for text in corpus
        ],
        "rensa R, from text": lambda: [rensa_r(shingles(text, words)) for text in corpus],
        "shingling alone": lambda: [shingles(text, words) for text in corpus],
    }


def measure(documents: int, rounds: int, words: int) -> list[dict[str, object]]:
    """Return a row per job: microseconds per document, and the ratio to lostfound in batches."""
    corpus = texts(Shape(words_median=words, words_sigma=0.15), 0, documents)
    named_jobs = jobs(corpus, Scheme())
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, job in named_jobs.items():
            started = time.perf_counter()
            job()
            duration = (time.perf_counter() - started) / documents * 1e6
            best[name] = min(best.get(name, duration), duration)
    ours = best["lostfound, batch"]
    size = sum(map(len, corpus)) / documents
    return [
        {
            "what": name,
            "us_document": duration,
            "times": duration / ours,
            "target": TARGETS.get(name),
            "text_chars": size,
        }
        for name, duration in best.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--words", type=int, default=830, help="median words per text; 830 words are about 5.6 kB")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args.documents, args.rounds, args.words)
    if args.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return
    print(
        f"{args.documents} texts of {rows[0]['text_chars']:.0f} characters, {PERMUTATIONS} permutations, one core\n"
    )
    print(f"{'':26}{'us/text':>10}{'times':>8}   target")
    for row in rows:
        target = f"{row['target']:>6.0f}x" if row["target"] else ""
        print(f"{row['what']:26}{row['us_document']:>10.1f}{row['times']:>7.1f}x  {target}")


if __name__ == "__main__":
    main()
