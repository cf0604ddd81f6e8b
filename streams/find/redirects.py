"""Redirect maps for web servers, from answers: chains flattened, loops dropped, hostile URLs kept harmless.

| form    | file                                                        | looked up by                         |
|---------|-------------------------------------------------------------|--------------------------------------|
| nginx   | a `map` block for the http section                          | host, path and query as requested    |
| apache  | a text file for RewriteMap                                  | host, path and query as requested    |
| netlify | a `_redirects` file                                         | path; host too where there are many  |
| csv     | `old,new,confidence` with a header                          |                                      |

URLs are written as WHATWG normalises them, which leaves no space, line end or control character; and what means more
than itself in a form is escaped or percent-encoded. A redirect that a form cannot say is left out, and told.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import can_ada
import msgspec

from streams.errors import BadUrl, InputError
from streams.find.answer import Answer
from streams.urls import url_key

_PATTERN = re.compile(r"\*|/:")  # what netlify reads as a splat or a placeholder
_HARMLESS = re.compile(r"[!-~]+")


class RedirectMap(msgspec.Struct, frozen=True):
    """Redirects old -> (new, confidence), in order of old URL, and the old URLs that got none, with the reason."""

    moves: dict[str, tuple[str, float]]
    dropped: dict[str, str]


def redirect_map(answers: Iterable[Answer], confidence_min: float = 0.5) -> RedirectMap:
    """Redirects from moved URLs: the best candidate at or above `confidence_min`, chains followed to their end."""
    moved = (a for a in answers if a.status == "moved" and a.candidates)
    best = ((a.url, a.candidates[0]) for a in moved)
    return flatten({url: (c.url, c.confidence) for url, c in best if c.confidence >= confidence_min})


def flatten(direct: Mapping[str, tuple[str, float]]) -> RedirectMap:
    """Follow each old URL to where its chain ends; the confidence of a chain is the product of its steps.

    URLs are the same when their keys are: from http to https of one page would be a loop on most servers. All that
    lead into a loop are dropped.
    """
    steps: dict[bytes, tuple[bytes, str, float]] = {}
    dropped: dict[str, str] = {}
    olds: dict[str, bytes] = {}
    for old, (new, confidence) in direct.items():
        try:
            key, target = url_key(old), url_key(new)
        except BadUrl:
            dropped[old] = "not a URL that can be redirected"
            continue
        if key in steps:
            continue  # another spelling of a URL that is there already
        olds[old] = key
        steps[key] = target, new, confidence
    moves: dict[str, tuple[str, float]] = {}
    for old in sorted(olds):
        passed, at, sure, url = {olds[old]}, *_step(steps[olds[old]])
        while at in steps and at not in passed:
            passed.add(at)
            at, more, url = _step(steps[at])
            sure *= more
        if at in passed:
            dropped[old] = "leads back to itself"
        else:
            moves[old] = url, sure
    return RedirectMap(moves, dropped)


def _step(step: tuple[bytes, str, float]) -> tuple[bytes, float, str]:
    key, url, confidence = step
    return key, confidence, url


def render(redirects: RedirectMap, form: str) -> tuple[str, dict[str, str]]:
    """The text of a map in one of FORMS, and what was left out of it: old URL -> reason. Raises InputError."""
    if form not in FORMS:
        raise InputError(f"no redirect map of the form {form!r}", f"use one of {', '.join(FORMS)}")
    dropped = dict(redirects.dropped)
    rows: list[_Row] = []
    for old, (new, confidence) in redirects.moves.items():
        source, target = can_ada.parse(old), can_ada.parse(new)
        row = _Row(source.href, source.host, source.pathname, source.search, target.href, confidence)
        if not all(_HARMLESS.fullmatch(part) for part in (row.host, row.path, row.query or "-", row.target)):
            dropped[old] = "holds characters that no redirect map can"
        elif form == "netlify" and (row.query or _PATTERN.search(row.path)):
            dropped[old] = "netlify cannot tell it by its path alone"
        else:
            rows.append(row)
    return FORMS[form](rows), dropped


class _Row(NamedTuple):
    """A redirect as browsers ask for it: `host` with its port where it is not the scheme's, `query` with its `?`."""

    old: str
    host: str
    path: str
    query: str
    target: str
    confidence: float


def _nginx(rows: list[_Row]) -> str:
    # A $ in a value would name a variable, and nginx has no escape for it but this one.
    lines = [
        f"    {_quoted(row.host + row.path + row.query)} {_quoted(row.target.replace('$', '%24'))};\n" for row in rows
    ]
    head = "# In a server block: if ($moved_to) { return 301 $moved_to; }\n"
    return head + 'map "$http_host$request_uri" $moved_to {\n    default "";\n' + "".join(lines) + "}\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _apache(rows: list[_Row]) -> str:
    head = (
        "# RewriteEngine On\n"
        '# RewriteMap moved "txt:/etc/apache2/moved.map"\n'
        "# RewriteMap lower int:tolower\n"
        '# RewriteCond "%{THE_REQUEST}" "^\\S+ (\\S+)"\n'
        '# RewriteCond "${moved:${lower:%{HTTP_HOST}}%1}" "(.+)"\n'
        '# RewriteRule "^" "%1" [R=301,L,NE]\n'
    )
    return head + "".join(f"{row.host}{row.path}{row.query} {row.target}\n" for row in rows)


def _netlify(rows: list[_Row]) -> str:
    one_host = len({row.host for row in rows}) == 1
    starts = ("" if one_host else f"https://{row.host}" for row in rows)
    return "".join(f"{start}{row.path} {row.target} 301\n" for start, row in zip(starts, rows, strict=True))


def _csv(rows: list[_Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("old", "new", "confidence"))
    writer.writerows((row.old, row.target, f"{row.confidence:.3f}") for row in rows)
    return out.getvalue()


FORMS: dict[str, Callable[[list[_Row]], str]] = {
    "nginx": _nginx,
    "apache": _apache,
    "netlify": _netlify,
    "csv": _csv,
}
