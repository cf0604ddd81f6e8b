"""Measure how often `find` is right on real sweeps with known moves, through the real engine.

    python -m bench.moves SET [SET...] [--opaque] [--no-texts] [--plot FILE]

A SET is a folder with files sweep-*.jsonl.zst and truth.tsv, as in shared/data/moves. All sweeps are ingested into a
new state. Then the answers of `find` to every URL of truth.tsv are scored:

    hit@1, hit@5   the true URL is first, or among the first five
    gathered       the true URL is among the ranked candidates; otherwise the lookups did not return it
    precision      share of correct answers among those at or above --min-confidence, including `gone` rows
    answered       share of moved, moved-n1 and merged rows with an answer at or above --min-confidence
    silent         share of `gone` rows without such an answer
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import zstandard

from bench.measure import OUT
from state.store import Store
from state.view import View
from streams import settings as settings_module
from streams.engine.ingest import ingest
from streams.find import Answer, Finder, warm_up

KINDS = ("moved", "moved-n1", "merged", "gone")
Truth = dict[str, tuple[str, str]]
Report = dict[str, dict[str, int]]  # by kind of row


def read_truth(folder: Path, opaque: bool) -> Truth:
    truth: Truth = {}
    for line in (folder / "truth.tsv").read_text(encoding="utf-8").splitlines():
        old, new, kind = ([*line.split("\t"), "", ""])[:3]
        if line and old != "old_url":
            truth[hash_path(old) if opaque else old] = (hash_path(new) if opaque and new else new, kind)
    return truth


def hash_path(url: str) -> str:
    """Replace the path and query of a URL by a hash of the URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/{hashlib.blake2b(url.encode(), digest_size=9).hexdigest()}"


def prepare_sweeps(folder: Path, opaque: bool, scratch: Path) -> list[Path]:
    """Return the files of all sweeps. If `opaque`, these are copies in `scratch` with hashed URLs."""
    paths = sorted(folder.glob("sweep-*.jsonl.zst"))
    if not opaque:
        return paths
    copies = []
    for path in paths:
        lines = zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read().splitlines()
        pages = [json.loads(line) for line in lines]
        text = "".join(json.dumps({**page, "url": hash_path(page["url"])}) + "\n" for page in pages)
        copies.append(scratch / path.name.removesuffix(".zst"))
        copies[-1].write_text(text, encoding="utf-8")
    return copies


def run(
    folder: Path, *, opaque: bool, texts: bool, sample_max: int | None
) -> tuple[Truth, list[Answer], dict[str, Any]]:
    """Ingest a set and run `find` on every old URL of its truth. Return the truth, the answers and other figures."""
    truth = read_truth(folder, opaque)
    overrides: dict[str, dict[str, Any]] = {"policy": {"keep_texts": texts}, "ingest": {"workers": 1}}
    if sample_max:
        overrides["scheme"] = {"sample_max": sample_max}
    settings = settings_module.load(None, overrides)
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(Path(scratch) / "state", settings.store)
        started = time.perf_counter()
        for number, path in enumerate(prepare_sweeps(folder, opaque, Path(scratch))):
            ingest(store, settings, [str(path)], path.name.split(".")[0], now=1_700_000_000_000 + number)
        ingested = time.perf_counter() - started
        warm_up()
        finder = Finder(View(store), settings)
        started = time.perf_counter()
        answers = list(finder.find_many(truth))
        answered = time.perf_counter() - started
        single = Finder(View(store), settings)
        single.find(next(iter(truth)))
        times = []
        for url in list(truth)[:300]:
            started = time.perf_counter()
            single.find(url)
            times.append(1000 * (time.perf_counter() - started))
        ranked_urls = {url: single.ranked_urls(url) for url in truth}
        store.close()
    times.sort()
    figures = {
        "ingest_seconds": ingested,
        "find_many_ms": 1000 * answered / len(truth),
        "find_p50_ms": times[len(times) // 2],
        "find_p99_ms": times[int(len(times) * 0.99)],
        "counters": dict(finder.counters),
        "reached": ranked_urls,
    }
    return truth, answers, figures


def score(truth: Truth, answers: list[Answer], ranked_urls: dict[str, list[str]], confidence_min: float) -> Report:
    """Count hits and misses by kind of row. `ranked_urls` contains the ranked URLs for each old URL."""
    tally: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for answer in answers:
        new, kind = truth[answer.url]
        confident = [c for c in answer.candidates if c.confidence >= confidence_min]
        urls = [c.url for c in answer.candidates]
        for key in (kind, "all"):
            counts = tally[key]
            counts["rows"] += 1
            counts["claimed"] += bool(confident)
            counts["right"] += bool(confident) and kind != "gone" and confident[0].url == new
            counts["hit1"] += (urls[:1] == [new]) if kind != "gone" else not confident
            counts["hit5"] += (new in urls[:5]) if kind != "gone" else not confident
            counts["gathered"] += new in ranked_urls[answer.url]
            counts["has_target"] += kind != "gone"
            counts["answered"] += bool(confident) and kind != "gone"
    return {key: dict(counts) for key, counts in tally.items()}


def show(name: str, report: Report) -> None:
    print(f"{name:32} {'rows':>5} {'hit@1':>7} {'hit@5':>7} {'gathered':>9} {'precision':>10} {'answered':>9}")
    for kind in (*KINDS, "all"):
        if (counts := report.get(kind)) is None:
            continue
        share = {k: counts.get(k, 0) / counts["rows"] for k in ("hit1", "hit5", "gathered")}
        precision = (
            f"{counts['right'] / counts['claimed']:10.3f}" if counts["claimed"] and kind != "gone" else " " * 10
        )
        answered = f"{counts['answered'] / counts['has_target']:9.3f}" if counts["has_target"] else " " * 9
        gathered = f"{share['gathered']:9.3f}" if kind not in {"gone", "all"} else " " * 9
        label = f"  {kind}" + (" (silent)" if kind == "gone" else "")
        print(
            f"{label:32} {counts['rows']:5} {share['hit1']:7.3f} {share['hit5']:7.3f} {gathered} {precision} {answered}"
        )


def curve(truth: Truth, answers: list[Answer]) -> tuple[list[float], list[float], list[float]]:
    """Return columns with the share answered, the precision and the confidence, by descending confidence."""
    best = [
        (a.candidates[0].confidence, a.candidates[0].url == truth[a.url][0], a.url) for a in answers if a.candidates
    ]
    best.sort(key=lambda row: -row[0])
    targets = sum(kind != "gone" for _, kind in truth.values())
    right = answered = 0
    points = []
    for claimed, (confidence, is_right, url) in enumerate(best, 1):
        right += is_right
        answered += truth[url][1] != "gone"
        points.append((answered / targets, right / claimed, confidence))
    shares, precisions, confidences = zip(*points, strict=True)
    return list(shares), list(precisions), list(confidences)


def plot(curves: dict[str, tuple[list[float], list[float], list[float]]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5.5))
    for name, (shares, precisions, confidences) in curves.items():
        (line,) = axes.plot(shares, precisions, label=name, linewidth=1.6)
        at = max((i for i, c in enumerate(confidences) if c >= 0.5), default=None)
        if at is not None:
            axes.plot(shares[at], precisions[at], "o", color=line.get_color(), markersize=7)
    axes.set_xlabel("share of moved, moved-n1 and merged URLs answered")
    axes.set_ylabel("precision of the answers (gone URLs counted as wrong)")
    axes.set_title("find: precision against share answered; the dot is confidence 0.5")
    axes.set_xlim(0, 1.02)
    axes.set_ylim(0.4, 1.02)
    axes.axhline(0.9, color="grey", linewidth=0.8, linestyle=":")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, nargs="+", help="folders with sweeps and truth.tsv")
    parser.add_argument("--opaque", action="store_true", help="replace every path by a hash of its URL")
    parser.add_argument(
        "--no-texts", action="store_true", help="do not store texts, so that candidates are ranked by sketches"
    )
    parser.add_argument("--sample-max", type=int, help="sampled shingles per sketch")
    parser.add_argument(
        "--min-confidence", type=float, default=0.5, help="least confidence of an answer that is scored"
    )
    parser.add_argument("--answers", type=Path, help="folder to write the answers to, as JSON lines")
    parser.add_argument(
        "--plot", type=Path, help=f"image file for the precision curve, for example {OUT / 'moves.png'}"
    )
    args = parser.parse_args()
    curves = {}
    for folder in args.sets:
        if not (folder / "truth.tsv").exists():
            print(f"{folder} is not a set of moves: it has no truth.tsv", file=sys.stderr)
            return 2
        name = folder.name + (" opaque" if args.opaque else "") + (" no texts" if args.no_texts else "")
        truth, answers, figures = run(folder, opaque=args.opaque, texts=not args.no_texts, sample_max=args.sample_max)
        show(name, score(truth, answers, figures.pop("reached"), args.min_confidence))
        print("  " + ", ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items()))
        curves[name] = curve(truth, answers)
        if args.answers:
            args.answers.mkdir(parents=True, exist_ok=True)
            lines = b"".join(answer.to_json() + b"\n" for answer in answers)
            (args.answers / f"{name.replace(' ', '-')}.jsonl").write_bytes(lines)
    if args.plot:
        plot(curves, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
