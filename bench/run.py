"""The targets beside what is measured, from one run: `make bench`, or `python -m bench`.

Every figure is a ratio of two runs made one after the other on this machine; nothing here compares with figures from
elsewhere. Where a machine that changes meanwhile would decide, a comparison is made in turn several times, and the
round whose ratio is in the middle is shown. `seconds` are wall clock; the ratio of CPU seconds (all threads, compaction too) stands beside it, as
it suffers less from a busy machine. Rows are written to bench/out/bench.json and bench/out/bench.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench import peers
from bench.engine import CLUSTERS_ONLY
from bench.measure import OUT, in_child
from streams import settings as settings_module

CROWD = {"crowd": True}
UNRELATED = {"exact_share": 0.0, "near_share": 0.0}
TIMES = {"rensa": 1.0, "datasketch": 5.0, "datasketch on Redis": 50.0}
# Slow peers see the beginning of the same corpus only; that their indexes stay smaller is to their advantage.
PEER_SHARES = {"rensa": 1.0, "rensa, matrix": 1.0, "gaoya": 0.25, "datasketch": 0.1, "datasketch on Redis": 0.05}
ROUNDS = 3  # of comparisons of some seconds each; odd
WIDTH = 170  # characters, where the output is no terminal

Figures = dict[str, Any]


class Row(msgspec.Struct):
    """A line of the table. A ratio is met when it is at least `target`, or at most, where `most` says so."""

    group: str
    what: str
    ratio: float
    cpu_ratio: float | None
    target: float | None
    note: str = ""
    most: bool = False

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.ratio <= self.target if self.most else self.ratio >= self.target


def signatures() -> Iterator[Row]:
    """Text to signature."""
    rows = {
        row["what"]: row["us_document"]
        for row in in_child("bench.sketch_speed:measure", documents=300, rounds=7, words=830)
    }
    ours = rows["lostfound, batch"]
    for name, target in (
        ("rensa R, from text", 8.0),
        ("datasketch, from text", 40.0),
        ("rensa R", None),
        ("datasketch update_batch", None),
        ("gaoya, with insert", None),
    ):
        shingled = "" if "from text" in name else ", shingles handed to it"
        note = f"{ours:.1f} µs a text; {name}{shingled} {rows[name]:.1f} µs"
        yield Row("text to signature", f"as fast as {name}", rows[name] / ours, None, target, note)


def in_turn(part: Callable[[int], Iterator[Row]], documents: int, rounds: int = ROUNDS) -> Iterator[Row]:
    """A comparison made several times: of each of its rows the one whose ratio is in the middle."""
    for rows in zip(*[list(part(documents)) for _ in range(rounds)], strict=True):
        yield sorted(rows, key=lambda row: row.ratio)[rounds // 2]


def clusters(documents: int) -> Iterator[Row]:
    """Text to verified, persisted clusters; and pages that a second sweep finds unchanged."""
    settings = settings_module.load()
    given = {"shape": {}, "scheme": msgspec.to_builtins(settings.scheme), "threshold": settings.policy.threshold}
    bare = in_child("bench.engine:clusters", documents=documents, shape={}, policy=CLUSTERS_ONLY)
    full = in_child("bench.engine:clusters", documents=documents, shape={}, sweeps=2)
    first, second = full["sweeps"]
    group = "text to verified, persisted clusters"
    missing = peers.redis_missing()
    for name, target in peers.PEERS.items():
        if missing and "Redis" in name:
            yield Row(group, f"as fast as {name}", 0.0, None, TIMES[name], f"not measured: {missing}")
            continue
        peer = in_child(target, documents=max(int(documents * PEER_SHARES[name]), 100), **given)
        shingling = 100 * peer["shingling_seconds"] / peer["seconds"]
        note = f"{_rate(bare)} against {_rate(peer)}/s" + (
            f", {shingling:.0f} % of it shingling" if shingling > 1 else ""
        )
        yield _faster(group, f"as fast as {name}", bare, peer, TIMES.get(name), note)
        note = f"{_rate(first)} against {_rate(peer)}/s"
        yield _faster(group, f"  with texts and find's indexes kept too: {name}", first, peer, None, note)
    note = f"{_rate(second)} against {_rate(first)}/s; {second['unchanged']:,} of {documents:,} unchanged"
    yield _faster("sweeps", "unchanged pages as fast as new ones", second, first, 3.0, note)


def html(documents: int) -> Iterator[Row]:
    """HTML pages to clusters beside the HTML parser."""
    group = "HTML pages to clusters"
    for name, policy, target in (("clusters", CLUSTERS_ONLY, 1.5), ("clusters, texts and find's indexes", {}, None)):
        found = in_child("bench.engine:html_pages", documents=documents, shape={}, policy=policy)
        ratio = found["cpu_seconds"] / found["parser"]["cpu_seconds"]
        note = (
            f"{found['cpu_us_a_document']:.0f} against {found['parser']['cpu_us_a_document']:.0f} µs CPU for pages of "
            f"{found['page_bytes'] / 1000:.0f} kB; reading the JSONL alone {found['reader']['cpu_us_a_document']:.0f}"
        )
        yield Row(group, f"CPU of {name} to that of the parser", ratio, ratio, target, note, most=True)


def crowd(documents: int) -> Iterator[Row]:
    """One growing cluster of near-copies beside pages that have nothing in common."""
    alone = in_child("bench.engine:clusters", documents=documents, shape=UNRELATED)
    crowded = in_child("bench.engine:clusters", documents=documents, shape=CROWD)
    note = f"{_rate(crowded)} against {_rate(alone)}/s; {crowded['near']:,} of {documents:,} joined"
    yield _faster("crowded cluster", "near-copies of one page as fast as unrelated ones", crowded, alone, 0.5, note)


def accuracy(figures: list[Figures], pairs: int) -> Iterator[Row]:
    """Estimates against exact sets; the whole table is printed under the ratios."""
    group = "accuracy"
    # Estimates are kept within what is possible: where the truth lies at an end of it, they err to one side only.
    pairs_of = zip(figures[::2], figures[1::2], strict=True)
    inner = [row for both in pairs_of if 0 < both[1]["truth"] < 1 and not both[0]["exact"] for row in both]
    bias = max(abs(row["bias"]) / row["bias_error"] for row in inner)
    note = f"of {len(inner)} means over up to {pairs:,} pairs each, resemblance and containment"
    yield Row(group, "largest bias, in standard errors of its mean", bias, None, 4.0, note, most=True)
    stated = max(row["rmse"] / row["stated"] for row in inner)
    yield Row(group, "largest error made to error stated", stated, None, 1.2, "root mean squares", most=True)
    found = in_child("bench.exact:against_exact", documents=3000)
    note = f"of {found['pairs']:,} pairs of {found['documents']:,} documents, all compared exactly"
    yield Row(group, "share in one cluster of pairs 0.1 above the threshold", found["joined"], None, 0.99, note)
    note = f"of {found['edges']:,} edges; {100 * found['edges_below']:.1f} % lie below at all, the lowest at {found['lowest']:.2f}"
    yield Row(
        group, "share of edges below it by over 3 standard errors", found["edges_short"], None, 0.003, note, most=True
    )


def estimates(pairs: int) -> dict[str, Any]:
    """The rows of `bench.accuracy`, for a process of its own."""
    from bench import accuracy as parts
    from state.scheme import Scheme
    from streams.sketch.sketcher import Sketcher

    return {"estimates": parts.estimates(Sketcher(Scheme()), pairs)}


def estimates_table(rows: list[Figures]) -> Table:
    """Every estimate beside its truth, but for those of short documents, which are counted."""
    shown = Table(title="estimates against exact sets")
    for name in ("figure", "|a|", "|b|", "truth", "bias", "±", "rmse", "stated"):
        shown.add_column(name, justify="left" if name == "figure" else "right")
    for row in (row for row in rows if not row["exact"]):
        numbers = (f"{row[name]:{form}}" for name, form in _ESTIMATES)
        shown.add_row(str(row["figure"]), str(row["a"]), str(row["b"]), *numbers)
    return shown


_ESTIMATES = (("truth", ".3f"), ("bias", "+.4f"), ("bias_error", ".4f"), ("rmse", ".4f"), ("stated", ".4f"))


def _faster(group: str, what: str, ours: Figures, theirs: Figures, target: float | None, note: str) -> Row:
    ratio = ours["documents_a_second"] / theirs["documents_a_second"]
    cpu_ratio = theirs["cpu_us_a_document"] / ours["cpu_us_a_document"]
    return Row(group, what, ratio, None if "Redis" in what else cpu_ratio, target, note)


def _rate(figures: Figures) -> str:
    return f"{figures['documents_a_second']:,.0f}"


def table(rows: list[Row]) -> Table:
    shown = Table(
        title=f"lostfound, side by side on {os.cpu_count()} cores, {platform.processor() or platform.machine()}"
    )
    for name, justify in (
        ("what", "left"),
        ("times", "right"),
        ("by CPU", "right"),
        ("target", "right"),
        ("", "left"),
        ("figures", "left"),
    ):
        shown.add_column(name, justify=justify)  # type: ignore[arg-type]
    group = ""
    for row in rows:
        if row.group != group:
            shown.add_section()
            shown.add_row(f"[bold]{row.group}[/bold]")
            group = row.group
        target = "" if row.target is None else f"{'≤' if row.most else '≥'} {row.target:g}"
        verdict = {None: "", True: "[green]met[/green]", False: "[red]missed[/red]"}[row.met]
        cpu = "" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}"
        shown.add_row(f"  {row.what}", f"{row.ratio:.2f}", cpu, target, verdict, row.note)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure lostfound beside its peers; prints one table of ratios.")
    parser.add_argument("--documents", type=int, default=40_000, help="pages of the main comparison")
    parser.add_argument("--crowd", type=int, default=100_000, help="near-copies of one page")
    parser.add_argument("--html", type=int, default=4_000, help="HTML pages")
    parser.add_argument("--pairs", type=int, default=500, help="pairs of texts an estimate is tried on")
    given = parser.parse_args()
    log, rows = Console(stderr=True), []
    for name, part in (
        ("text to signature", signatures()),
        ("text to clusters, peers and sweeps", in_turn(clusters, given.documents)),
        ("HTML to clusters", in_turn(html, given.html)),
        ("a crowded cluster", crowd(given.crowd)),
    ):
        log.print(f"measuring {name} ...")
        rows += list(part)
    OUT.mkdir(exist_ok=True)
    exact = in_child("bench.run:estimates", pairs=given.pairs)["estimates"]
    rows += accuracy(exact, given.pairs)
    (OUT / "bench.json").write_text(
        json.dumps([{**msgspec.to_builtins(row), "met": row.met} for row in rows], indent=1)
    )
    with (OUT / "bench.txt").open("w") as file:
        show(Console(file=file, width=WIDTH), rows, exact)
    show(Console(width=None if sys.stdout.isatty() else WIDTH), rows, exact)


def show(console: Console, rows: list[Row], exact: list[Figures]) -> None:
    """Both tables."""
    console.print(estimates_table(exact))
    console.print(table(rows))


if __name__ == "__main__":
    main()
