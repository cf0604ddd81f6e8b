"""Score `find` on sets of real sweeps with known moves, through the real engine.

    python -m bench.moves SET [SET...] [--opaque] [--no-texts] [--plot FILE]

A SET is a folder in the form of shared/data/moves: sweep-*.jsonl.zst and truth.tsv. Every sweep is ingested into a
fresh state, every URL of the truth is asked, and the answers are scored:

    hit@1, hit@5   the true URL is first, or among the first five
    gathered       the true URL was among the candidates that were ranked: what the candidate step loses is 1 - this
    precision      of the answers at or above --min-confidence, `gone` rows among them, the share that is right
    answered       the share of moved, moved-n1 and merged rows that are answered at or above it
    silent         the share of `gone` rows that are not
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

from state.store import Store
from state.view import View
from streams import settings as settings_module
from streams.engine.ingest import ingest
from streams.find import Answer, Finder, warm_up

KINDS = ("moved", "moved-n1", "merged", "gone")
OUT = Path(__file__).parent / "out"
Truth = dict[str, tuple[str, str]]
Report = dict[str, dict[str, int]]  # by kind of row


def read_truth(folder: Path, opaque: bool) -> Truth:
    found: Truth = {}
    for line in (folder / "truth.tsv").read_text(encoding="utf-8").splitlines():
        old, new, kind = ([*line.split("\t"), "", ""])[:3]
        if line and old != "old_url":
            found[hidden(old) if opaque else old] = (hidden(new) if opaque and new else new, kind)
    return found


def hidden(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/{hashlib.blake2b(url.encode(), digest_size=9).hexdigest()}"


def sweeps(folder: Path, opaque: bool, scratch: Path) -> list[Path]:
    paths = sorted(folder.glob("sweep-*.jsonl.zst"))
    if not opaque:
        return paths
    out = []
    for path in paths:
        lines = zstandard.ZstdDecompressor().stream_reader(path.open("rb")).read().splitlines()
        pages = [json.loads(line) for line in lines]
        text = "".join(json.dumps({**page, "url": hidden(page["url"])}) + "\n" for page in pages)
        out.append(scratch / path.name.removesuffix(".zst"))
        out[-1].write_text(text, encoding="utf-8")
    return out


def run(
    folder: Path, *, opaque: bool, texts: bool, sample_max: int | None
) -> tuple[Truth, list[Answer], dict[str, Any]]:
    """Ingest a set and ask for every URL of its truth. Times are in seconds and milliseconds as named."""
    truth = read_truth(folder, opaque)
    overrides: dict[str, dict[str, Any]] = {"policy": {"keep_texts": texts}, "ingest": {"workers": 1}}
    if sample_max:
        overrides["scheme"] = {"sample_max": sample_max}
    settings = settings_module.load(None, overrides)
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(Path(scratch) / "state", settings.store)
        began = time.perf_counter()
        for number, path in enumerate(sweeps(folder, opaque, Path(scratch))):
            ingest(store, settings, [str(path)], path.name.split(".")[0], now=1_700_000_000_000 + number)
        ingested = time.perf_counter() - began
        warm_up()
        finder = Finder(View(store), settings)
        began = time.perf_counter()
        answers = list(finder.find_many(truth))
        asked = time.perf_counter() - began
        single = Finder(View(store), settings)
        single.find(next(iter(truth)))
        times = []
        for url in list(truth)[:300]:
            began = time.perf_counter()
            single.find(url)
            times.append(1000 * (time.perf_counter() - began))
        reached = {url: single.ranked_urls(url) for url in truth}
        store.close()
    times.sort()
    about = {
        "ingest_seconds": ingested,
        "find_many_ms": 1000 * asked / len(truth),
        "find_p50_ms": times[len(times) // 2],
        "find_p99_ms": times[int(len(times) * 0.99)],
        "counters": dict(finder.counters),
        "reached": reached,
    }
    return truth, answers, about


def score(truth: Truth, answers: list[Answer], reached: dict[str, list[str]], least: float) -> Report:
    tally: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for answer in answers:
        new, kind = truth[answer.url]
        sure = [c for c in answer.candidates if c.confidence >= least]
        urls = [c.url for c in answer.candidates]
        for key in (kind, "all"):
            t = tally[key]
            t["rows"] += 1
            t["claimed"] += bool(sure)
            t["right"] += bool(sure) and kind != "gone" and sure[0].url == new
            t["hit1"] += (urls[:1] == [new]) if kind != "gone" else not sure
            t["hit5"] += (new in urls[:5]) if kind != "gone" else not sure
            t["gathered"] += new in reached[answer.url]
            t["lives"] += kind != "gone"
            t["answered"] += bool(sure) and kind != "gone"
    return {key: dict(t) for key, t in tally.items()}


def show(name: str, report: Report) -> None:
    print(f"{name:32} {'rows':>5} {'hit@1':>7} {'hit@5':>7} {'gathered':>9} {'precision':>10} {'answered':>9}")
    for kind in (*KINDS, "all"):
        if (t := report.get(kind)) is None:
            continue
        share = {k: t.get(k, 0) / t["rows"] for k in ("hit1", "hit5", "gathered")}
        precision = f"{t['right'] / t['claimed']:10.3f}" if t["claimed"] and kind != "gone" else " " * 10
        answered = f"{t['answered'] / t['lives']:9.3f}" if t["lives"] else " " * 9
        gathered = f"{share['gathered']:9.3f}" if kind not in {"gone", "all"} else " " * 9
        label = f"  {kind}" + (" (silent)" if kind == "gone" else "")
        print(f"{label:32} {t['rows']:5} {share['hit1']:7.3f} {share['hit5']:7.3f} {gathered} {precision} {answered}")


def curve(truth: Truth, answers: list[Answer]) -> tuple[list[float], list[float], list[float]]:
    """Precision and share answered as the confidence asked for falls, with that confidence."""
    best = [
        (a.candidates[0].confidence, a.candidates[0].url == truth[a.url][0], a.url) for a in answers if a.candidates
    ]
    best.sort(key=lambda row: -row[0])
    lives = sum(kind != "gone" for _, kind in truth.values())
    right = answered = 0
    points = []
    for claimed, (confidence, is_right, url) in enumerate(best, 1):
        right += is_right
        answered += truth[url][1] != "gone"
        points.append((answered / lives, right / claimed, confidence))
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
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--opaque", action="store_true", help="replace every path by a hash")
    parser.add_argument("--no-texts", action="store_true", help="rank on sketches")
    parser.add_argument("--sample-max", type=int)
    parser.add_argument("--min-confidence", type=float, default=0.5)
    parser.add_argument("--answers", type=Path, help="folder for the answers, for other tools to score")
    parser.add_argument("--plot", type=Path, help=f"such as {OUT / 'moves.png'}")
    args = parser.parse_args()
    curves = {}
    for folder in args.sets:
        if not (folder / "truth.tsv").exists():
            print(f"{folder}: no truth.tsv, not a set of moves", file=sys.stderr)
            return 2
        name = folder.name + (" opaque" if args.opaque else "") + (" no texts" if args.no_texts else "")
        truth, answers, about = run(folder, opaque=args.opaque, texts=not args.no_texts, sample_max=args.sample_max)
        show(name, score(truth, answers, about.pop("reached"), args.min_confidence))
        print("  " + ", ".join(f"{k} {v:.1f}" if isinstance(v, float) else f"{k} {v}" for k, v in about.items()))
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
