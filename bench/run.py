"""Compare lostfound with its peers and with its targets: `make bench`, or `python -m bench`.

Every figure is the ratio of two runs, one after the other on this machine; figures from elsewhere are not comparable.
Comparisons that a changing load would distort are repeated, and the round with the median ratio is shown. Ratios
compare wall-clock time. The ratio of CPU seconds (all threads, compaction included) is shown as well, because a busy
machine affects it less. Rows are written to bench/out/bench.json and bench/out/bench.txt.
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

from bench import links, peers
from bench.engine import CLUSTERS_ONLY
from bench.measure import OUT, in_child
from streams import settings as settings_module

CROWD = {"crowd": True}
UNRELATED = {"exact_share": 0.0, "near_share": 0.0}
TARGETS = {"rensa": 1.0, "datasketch": 5.0, "datasketch on Redis": 50.0}
# Slow peers get only the beginning of the corpus. Their smaller indexes give them an advantage.
CORPUS_SHARES = {"rensa": 1.0, "rensa, matrix": 1.0, "gaoya": 0.25, "datasketch": 0.1, "datasketch on Redis": 0.05}
ROUNDS = 3  # per comparison of a few seconds; odd, so that one round is the median
WIDTH = 170  # characters, if the output is not a terminal

Figures = dict[str, Any]


class Row(msgspec.Struct):
    """A row of the table. `target` is a minimum, or a maximum if `at_most` is set."""

    group: str
    what: str
    ratio: float
    cpu_ratio: float | None
    target: float | None
    note: str = ""
    at_most: bool = False

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.ratio <= self.target if self.at_most else self.ratio >= self.target


def signatures() -> Iterator[Row]:
    """Compare the time from text to signature with that of the peers."""
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
        shingled = "" if "from text" in name else ", shingles precomputed,"
        note = f"{ours:.1f} µs per text; {name}{shingled} {rows[name]:.1f} µs"
        yield Row("text to signature", f"as fast as {name}", rows[name] / ours, None, target, note)


def median_rounds(part: Callable[[int], Iterator[Row]], documents: int, rounds: int = ROUNDS) -> Iterator[Row]:
    """Repeat a comparison, and yield each row from the round with its median ratio."""
    for rows in zip(*[list(part(documents)) for _ in range(rounds)], strict=True):
        yield sorted(rows, key=lambda row: row.ratio)[rounds // 2]


def clusters(documents: int) -> Iterator[Row]:
    """Compare the time from text to clusters with that of the peers, and a second, unchanged sweep with the first."""
    settings = settings_module.load()
    arguments = {"shape": {}, "scheme": msgspec.to_builtins(settings.scheme), "threshold": settings.policy.threshold}
    clusters_only = in_child("bench.engine:clusters", documents=documents, shape={}, policy=CLUSTERS_ONLY)
    with_indexes = in_child("bench.engine:clusters", documents=documents, shape={}, sweeps=2)
    first, second = with_indexes["sweeps"]
    group = "text to verified, persisted clusters"
    missing = peers.redis_missing()
    for name, target in peers.PEERS.items():
        if missing and "Redis" in name:
            yield Row(group, f"as fast as {name}", 0.0, None, TARGETS[name], f"not measured: {missing}")
            continue
        peer = in_child(target, documents=max(int(documents * CORPUS_SHARES[name]), 100), **arguments)
        shingling = 100 * peer["shingling_seconds"] / peer["seconds"]
        note = f"{_rate(clusters_only)} against {_rate(peer)}/s" + (
            f", which spends {shingling:.0f}% on shingling" if shingling > 1 else ""
        )
        yield _faster(group, f"as fast as {name}", clusters_only, peer, TARGETS.get(name), note)
        note = f"{_rate(first)} against {_rate(peer)}/s"
        yield _faster(group, f"  {name}, if texts and the indexes of find are stored", first, peer, None, note)
    note = f"{_rate(second)} against {_rate(first)}/s; {second['unchanged']:,} of {documents:,} unchanged"
    yield _faster("sweeps", "unchanged pages as fast as new pages", second, first, 3.0, note)


def html(documents: int) -> Iterator[Row]:
    """Compare the CPU time from HTML pages to clusters with that of the HTML parser alone."""
    group = "HTML pages to clusters"
    for name, policy, target in (
        ("clusters", CLUSTERS_ONLY, 1.5),
        ("clusters, texts and the indexes of find", {}, None),
    ):
        figures = in_child("bench.engine:html_pages", documents=documents, shape={}, policy=policy)
        ratio = figures["cpu_seconds"] / figures["parser"]["cpu_seconds"]
        note = (
            f"{figures['cpu_us_per_document']:.0f} against {figures['parser']['cpu_us_per_document']:.0f} µs CPU for pages of "
            f"{figures['page_bytes'] / 1000:.0f} kB; reading the JSONL alone {figures['reader']['cpu_us_per_document']:.0f}"
        )
        yield Row(group, f"CPU time of {name} relative to the parser", ratio, ratio, target, note, at_most=True)


def stored_links(documents: int) -> Iterator[Row]:
    """Show the bytes per link, and compare the CPU time of pages with that without links."""
    group = "links"
    for choice, figures in links.measure(documents, rounds=ROUNDS).items():
        bytes_max = 25 if choice == "anchors" else 10
        note = f"{figures['links']:,.0f} distinct pairs of source and target"
        yield Row(group, f"bytes per link, {choice}", figures["bytes_per_link"], None, bytes_max, note, at_most=True)
        ratio, note = figures["cpu_ratio"], f"{figures['cpu_us_per_page']:.0f} µs CPU per page"
        yield Row(group, f"CPU time with {choice}, relative to no links", ratio, ratio, 1.15, note, at_most=True)


def crowd(documents: int) -> Iterator[Row]:
    """Compare one growing cluster of near-copies with unrelated pages."""
    alone = in_child("bench.engine:clusters", documents=documents, shape=UNRELATED)
    crowded = in_child("bench.engine:clusters", documents=documents, shape=CROWD)
    note = f"{_rate(crowded)} against {_rate(alone)}/s; {crowded['near']:,} of {documents:,} joined"
    yield _faster("crowded cluster", "near-copies of one page as fast as unrelated pages", crowded, alone, 0.5, note)


def accuracy(figures: list[Figures], pairs: int) -> Iterator[Row]:
    """Compare estimates with exact sets. `show` prints the complete table above the ratios."""
    group = "accuracy"
    # Estimates are clipped to the possible range: if the truth is at an end of the range, they err to one side only.
    pairs_of = zip(figures[::2], figures[1::2], strict=True)
    inner = [row for pair in pairs_of if 0 < pair[1]["truth"] < 1 and not pair[0]["exact"] for row in pair]
    bias = max(abs(row["bias"]) / row["bias_error"] for row in inner)
    note = f"of {len(inner)} means over up to {pairs:,} pairs each, resemblance and containment"
    yield Row(group, "largest bias, in standard errors of the mean", bias, None, 4.0, note, at_most=True)
    stated = max(row["rmse"] / row["stated"] for row in inner)
    yield Row(group, "largest ratio of actual to stated error", stated, None, 1.2, "root mean squares", at_most=True)
    exact = in_child("bench.exact:compare_with_exact", documents=3000)
    note = f"of {exact['pairs']:,} pairs of {exact['documents']:,} documents, all compared exactly"
    yield Row(group, "share of pairs 0.1 above the threshold in one cluster", exact["joined"], None, 0.99, note)
    note = f"of {exact['edges']:,} edges; {100 * exact['edges_below']:.1f}% are below the threshold, the lowest at {exact['lowest']:.2f}"
    yield Row(
        group,
        "share of edges more than 3 standard errors below the threshold",
        exact["edges_short"],
        None,
        0.003,
        note,
        at_most=True,
    )


def estimates(pairs: int) -> dict[str, Any]:
    """Return the rows of `bench.accuracy`. This function runs in a child process."""
    from bench import accuracy as parts
    from state.scheme import Scheme
    from streams.sketch.sketcher import Sketcher

    return {"estimates": parts.estimates(Sketcher(Scheme()), pairs)}


def estimates_table(rows: list[Figures]) -> Table:
    """Return the table of estimates and true values, without short documents, which are compared exactly."""
    result = Table(title="estimates compared with exact sets")
    for name in ("figure", "|a|", "|b|", "truth", "bias", "±", "rmse", "stated"):
        result.add_column(name, justify="left" if name == "figure" else "right")
    for row in (row for row in rows if not row["exact"]):
        numbers = (f"{row[name]:{form}}" for name, form in _ESTIMATES)
        result.add_row(str(row["figure"]), str(row["a"]), str(row["b"]), *numbers)
    return result


_ESTIMATES = (("truth", ".3f"), ("bias", "+.4f"), ("bias_error", ".4f"), ("rmse", ".4f"), ("stated", ".4f"))


def _faster(group: str, what: str, ours: Figures, theirs: Figures, target: float | None, note: str) -> Row:
    ratio = ours["documents_per_second"] / theirs["documents_per_second"]
    cpu_ratio = theirs["cpu_us_per_document"] / ours["cpu_us_per_document"]
    return Row(group, what, ratio, None if "Redis" in what else cpu_ratio, target, note)


def _rate(figures: Figures) -> str:
    return f"{figures['documents_per_second']:,.0f}"


def table(rows: list[Row]) -> Table:
    shown = Table(
        title=f"lostfound and its peers on {os.cpu_count()} cores, {platform.processor() or platform.machine()}"
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
        target = "" if row.target is None else f"{'≤' if row.at_most else '≥'} {row.target:g}"
        verdict = {None: "", True: "[green]met[/green]", False: "[red]missed[/red]"}[row.met]
        cpu = "" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}"
        shown.add_row(f"  {row.what}", f"{row.ratio:.2f}", cpu, target, verdict, row.note)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare lostfound with its peers; print one table of ratios.")
    parser.add_argument("--documents", type=int, default=40_000, help="pages of the main comparison")
    parser.add_argument("--crowd", type=int, default=100_000, help="near-copies of one page")
    parser.add_argument("--html", type=int, default=4_000, help="HTML pages")
    parser.add_argument("--pairs", type=int, default=500, help="pairs of texts per estimate")
    args = parser.parse_args()
    log, rows = Console(stderr=True), []
    for name, part in (
        ("text to signature", signatures()),
        ("text to clusters, peers and sweeps", median_rounds(clusters, args.documents)),
        ("HTML to clusters", median_rounds(html, args.html)),
        ("links", stored_links(args.html)),
        ("a crowded cluster", crowd(args.crowd)),
    ):
        log.print(f"measuring {name} ...")
        rows += list(part)
    OUT.mkdir(exist_ok=True)
    exact = in_child("bench.run:estimates", pairs=args.pairs)["estimates"]
    rows += accuracy(exact, args.pairs)
    (OUT / "bench.json").write_text(
        json.dumps([{**msgspec.to_builtins(row), "met": row.met} for row in rows], indent=1)
    )
    with (OUT / "bench.txt").open("w") as file:
        show(Console(file=file, width=WIDTH), rows, exact)
    show(Console(width=None if sys.stdout.isatty() else WIDTH), rows, exact)


def show(console: Console, rows: list[Row], exact: list[Figures]) -> None:
    """Print both tables."""
    console.print(estimates_table(exact))
    console.print(table(rows))


if __name__ == "__main__":
    main()
