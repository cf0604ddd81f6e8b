"""Redirect maps for web servers, made of moves: chains flattened, loops refused.

A server looks a map up by `host/path?query` as the browser sends it, so a redirect is from one such string to a whole
URL. What a format cannot say is left out, and said.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import can_ada
import msgspec

from streams.urls import url_key


class Redirect(msgspec.Struct, frozen=True):
    """Where one URL goes; `confidence` is the least of the moves on the way."""

    old: str
    new: str
    confidence: float
    hops: int = 1  # moves flattened into this one


class LeftOut(msgspec.Struct, frozen=True):
    """A move that is no redirect, and why."""

    old: str
    new: str
    why: str


def flatten(moves: Iterable[tuple[str, str, float]]) -> tuple[list[Redirect], list[LeftOut]]:
    """Redirects of (old, new, confidence) that lead to the end of each chain, in order of old URL.

    URLs are the same when their keys are: a move from http to https of one page would be a loop on most servers. All
    URLs on the way into a loop are left out.
    """
    known: dict[bytes, tuple[str, str, float]] = {}
    for old, new, confidence in moves:
        known.setdefault(url_key(old), (old, new, confidence))
    redirects: list[Redirect] = []
    left_out: list[LeftOut] = []
    for key, (old, new, confidence) in known.items():
        passed = {key}
        target, surety, hops = new, confidence, 1
        while (at := url_key(target)) in known and at not in passed:
            passed.add(at)
            _, target, next_surety = known[at]
            surety, hops = min(surety, next_surety), hops + 1
        if at in passed:
            left_out.append(LeftOut(old, new, "it leads back to itself"))
        else:
            redirects.append(Redirect(old, target, surety, hops))
    return sorted(redirects, key=lambda each: each.old), sorted(left_out, key=lambda each: each.old)


class Source(NamedTuple):
    """A URL as a server sees it asked for."""

    host: str  # with its port, when it is not the scheme's own
    path: str
    query: str  # with its `?`


def source(url: str) -> Source:
    """The parts of a URL that a browser sends, as it normalises them."""
    parsed = can_ada.parse(url)
    return Source(parsed.host, parsed.pathname, parsed.search)


def nginx(redirects: Sequence[Redirect]) -> Iterator[str]:
    """A `map` block for nginx's http section."""
    yield "# In a server block: if ($moved_to) { return 301 $moved_to; }"
    yield 'map "$http_host$request_uri" $moved_to {'
    yield '    default "";'
    for each in redirects:
        # A $ in a value would be a variable, and nginx has no way to escape it but this one.
        target = _parsed(each.new).replace("$", "%24")
        yield f"    {_quoted(''.join(source(each.old)))} {_quoted(target)};"
    yield "}"


def apache(redirects: Sequence[Redirect]) -> Iterator[str]:
    """A text map for Apache's RewriteMap."""
    yield from (
        "# RewriteEngine On",
        '# RewriteMap moved "txt:/etc/apache2/moved.map"',
        "# RewriteMap lower int:tolower",
        '# RewriteCond "%{THE_REQUEST}" "^\\S+ (\\S+)"',
        '# RewriteCond "${moved:${lower:%{HTTP_HOST}}%1}" "(.+)"',
        '# RewriteRule "^" "%1" [R=301,L,NE]',
    )
    for each in redirects:  # normalised URLs hold no space, which is what ends a key here
        yield f"{''.join(source(each.old))} {_parsed(each.new)}"


def netlify(redirects: Sequence[Redirect]) -> Iterator[str]:
    """A `_redirects` file; paths alone when there is one host, since a site has one there."""
    hosts = {source(each.old).host for each in redirects}
    for each in redirects:
        host, path, query = source(each.old)
        if query or re.search(r"\*|/:", path):
            yield f"# left out, a rule cannot say it: {each.old} {each.new}"
            continue
        old = path if len(hosts) == 1 else f"{each.old.split('://')[0]}://{host}{path}"
        new = source(each.new)
        target = f"{new.path}{new.query}" if hosts == {new.host} else _parsed(each.new)
        yield f"{old} {target} 301"


def table(redirects: Sequence[Redirect]) -> Iterator[str]:
    """CSV for people to review and for everything else."""
    yield "from,to,confidence,moves"
    for each in redirects:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([each.old, each.new, f"{each.confidence:.3f}", each.hops])
        yield line.getvalue()


FORMATS: dict[str, Callable[[Sequence[Redirect]], Iterator[str]]] = {
    "nginx": nginx,
    "apache": apache,
    "netlify": netlify,
    "csv": table,
}


def _parsed(url: str) -> str:
    """A URL normalised, which percent-encodes what would end a word or a line of a map."""
    return str(can_ada.parse(url).href)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
