"""What a collection answers, as JSON lines: the same of a folder and of workers, or something is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from state.model import Sweep
from state.view import View
from streams import query
from streams.cli.output import to_json_object
from streams.find import Finder, missing_urls
from streams.settings import Settings

Answers = dict[str, list[str]]


def answers(view: View, settings: Settings, *, every: int = 1) -> Answers:
    """Clusters and sweeps whole; `find` of every so many missing URLs; histories and likenesses of some of them."""
    missing = list(missing_urls(view, settings.find.soft_404_urls))
    urls = missing[::every]
    found: Answers = {"missing": missing, "sweeps": [_line(_timeless(sweep)) for sweep in view.sweeps()]}
    found["clusters"] = [_line(to_json_object(each)) for each in query.clusters(view, min_size=1)]
    found["clusters at 0.9"] = [
        _line(to_json_object(each))
        for each in query.clusters_by_policy(view, threshold=0.9, containment=True, sweep=None, min_size=1)
    ]
    found["find"] = [answer.to_json().decode() for answer in Finder(view, settings).find_many(iter(urls))]
    found["captures"] = [_line(to_json_object(version)) for url in urls[::8] for version in query.captures(view, url)]
    found["similar"] = list(_similar(view, settings, urls[::8]))
    return found


def differences(one: Answers, other: Answers) -> list[str]:
    """Where two differ: the question, how many lines, and the first pair of lines."""
    found = []
    for question in sorted(one.keys() | other.keys()):
        left, right = one.get(question, []), other.get(question, [])
        if left != right:
            unlike = [(a, b) for a, b in zip(left, right, strict=False) if a != b]
            found.append(f"{question}: {len(left)} and {len(right)} lines, {len(unlike)} differ")
            found += [f"  - {a[:2000]}\n  + {b[:2000]}" for a, b in unlike[:2]]
    return found


def _similar(view: View, settings: Settings, urls: Sequence[str]) -> Iterator[str]:
    for url in urls:
        row = view.document(query.resolve(view, url))
        assert row is not None
        yield from (_line(to_json_object(match)) for match in query.similar(view, settings, row.sketch, limit=20))


def _timeless(sweep: Sweep) -> Sweep:
    """A sweep without the times at which it was opened and committed: these are the clock's."""
    return msgspec.structs.replace(sweep, opened=0, committed=0)


def _line(value: object) -> str:
    return msgspec.json.encode(value).decode()
