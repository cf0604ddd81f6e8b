"""The answers of a collection as JSON lines, to compare the two engines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from state.families import Family
from state.model import Sweep
from state.rows import RowReader
from state.view import View
from streams import query
from streams.cli.output import to_json_object
from streams.find import Finder, possibly_missing_urls
from streams.settings import Settings
from streams.urls import url_key

Answers = dict[str, list[str]]
# Texts have the same content but are compressed differently; parents and members depend on the order of joins.
ROWS_COMPARED = (
    Family.CAPTURES,
    Family.DOCUMENTS,
    Family.LOCATIONS,
    Family.BANDS,
    Family.SAMPLES,
    Family.WORDS,
    Family.EDGES,
)


def answers(view: View, settings: Settings, *, sample_every: int = 1) -> Answers:
    """Return all clusters and sweeps; `find` every n-th missing URL, and read the captures and links of every eighth of these."""
    missing = list(possibly_missing_urls(view, settings.find.soft_404_urls))
    urls = missing[::sample_every]
    lines: Answers = {"missing": missing, "sweeps": [_line(_without_times(sweep)) for sweep in view.sweeps()]}
    lines["clusters"] = [_line(to_json_object(cluster)) for cluster in query.clusters(view, min_size=1)]
    lines["clusters at 0.9"] = [
        _line(to_json_object(cluster))
        for cluster in query.clusters_by_policy(view, threshold=0.9, containment=True, sweep=None, min_size=1)
    ]
    lines["find"] = [answer.to_json().decode() for answer in Finder(view, settings).find_many(iter(urls))]
    lines["captures"] = [_line(to_json_object(version)) for url in urls[::8] for version in query.captures(view, url)]
    lines["links"] = [
        _line(link)
        for url in urls[::8]
        for links in (query.links_to, query.links_from)
        for link in links(view, url_key(url))
    ]
    lines["similar"] = list(_similar(view, settings, urls[::8]))
    return lines


def row_digests(store: RowReader) -> Answers:
    """Return the number of rows and a digest of each family whose rows do not depend on the order of events."""
    return {
        f"rows of {family}": [f"{len(rows)} {hashlib.sha256(msgspec.msgpack.encode(rows)).hexdigest()}"]
        for family in ROWS_COMPARED
        if (rows := list(store.scan(family))) is not None
    }


def differences(first: Answers, second: Answers) -> list[str]:
    """Return the questions with different answers: their numbers of lines, and the first two pairs of lines."""
    report = []
    for question in sorted(first.keys() | second.keys()):
        left, right = first.get(question, []), second.get(question, [])
        if left != right:
            different = [(a, b) for a, b in zip(left, right, strict=False) if a != b]
            report.append(f"{question}: {len(left)} and {len(right)} lines, {len(different)} differ")
            report += [f"  - {a[:2000]}\n  + {b[:2000]}" for a, b in different[:2]]
    return report


def _similar(view: View, settings: Settings, urls: Sequence[str]) -> Iterator[str]:
    for url in urls:
        row = view.document(query.resolve(view, url))
        assert row is not None
        yield from (
            _line(to_json_object(match)) for match in query.find_similar(view, settings, row.sketch, limit=20)
        )


def _without_times(sweep: Sweep) -> Sweep:
    """Return a sweep without its times of opening and commit, which depend on the clock, and without what expired."""
    return msgspec.structs.replace(sweep, opened_time=0, committed_time=0, expired_messages=0)


def _line(value: object) -> str:
    return msgspec.json.encode(value).decode()
