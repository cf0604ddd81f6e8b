"""Redirect maps for web servers, from answers: chains flattened, loops dropped, hostile URLs kept harmless.

| form    | file                                                        | looked up by                         |
|---------|-------------------------------------------------------------|--------------------------------------|
| nginx   | `map` blocks for the http section                           | host, path and query as requested    |
| apache  | a text file for RewriteMap                                  | host, path and query as requested    |
| netlify | a `_redirects` file                                         | path; host too where there are many  |
| csv     | `old,new,confidence` with a header                          |                                      |

URLs are written as WHATWG normalises them, which leaves no space, line end or control character; and what means more
than itself in a form is escaped or percent-encoded. User names and passwords are never written. A redirect that a
form cannot say is left out, and told.
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
_APACHE_LINE_MAX = 1000  # mod_rewrite reads 1024 bytes at a time: what is beyond would be an entry of its own
_NGINX_WORD_MAX = 4000  # nginx takes words of less than 4096 bytes, quotes and escapes included
_NGINX_BUCKETS_MIN = 2048  # nginx's own map_hash_max_size
_NGINX_DOLLAR = "$moved_dollar"


class RedirectMap(msgspec.Struct, frozen=True):
    """Redirects old -> (new, confidence), in order of old URL, and the old URLs that got none, with the reason."""

    moves: dict[str, tuple[str, float]]
    dropped: dict[str, str]


def redirect_map(answers: Iterable[Answer], confidence_min: float = 0.5) -> RedirectMap:
    """Redirects from missing URLs: the best candidate at or above `confidence_min`, chains followed to their end.

    That may be below what makes a URL moved: then its page counts as gone, and who asks takes the risk. What has no
    confidence at all, as an error page, is never a target.
    """
    missing = (a for a in answers if a.status in {"moved", "gone"} and a.candidates)
    best = ((a.url, a.candidates[0]) for a in missing)
    return flatten({url: (c.url, c.confidence) for url, c in best if c.confidence >= confidence_min and c.confidence})


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
    rows: dict[str, _Row] = {}
    for old, (new, confidence) in redirects.moves.items():
        source, target = _without_user(old), _without_user(new)
        row = _Row(source.href, source.host, source.pathname, source.search, target.href, confidence)
        if all(_HARMLESS.fullmatch(part) for part in (row.host, row.path, row.query or "-", row.target)):
            rows[old] = row
        else:
            dropped[old] = "holds characters that no redirect map can"
    unfit = FORMS[form].unfit(rows)
    return FORMS[form].text([row for old, row in rows.items() if old not in unfit]), dropped | unfit


def _without_user(url: str) -> can_ada.URL:
    parsed = can_ada.parse(url)
    parsed.username = parsed.password = ""
    return parsed


class _Row(NamedTuple):
    """A redirect as browsers ask for it: `host` with its port where it is not the scheme's, `query` with its `?`.

    All of it is ASCII: characters are bytes.
    """

    old: str
    host: str
    path: str
    query: str
    target: str
    confidence: float

    @property
    def asked(self) -> str:
        """What servers look up."""
        return self.host + self.path + self.query


def _nginx(rows: list[_Row]) -> str:
    """Two maps, as nginx looks names up whatever their capitals: the second says how the old path was written.

    With one, a page whose name differs from an old one's by capitals would be redirected too: to itself, where all of
    a site's names became lower case.
    """
    words = [_nginx_words(row) for row in rows]
    longest = max((len(row.asked) for row in rows), default=0)
    head = (
        "# For http{}, before its first map. If that sets the two sizes already, keep the larger ones, once.\n"
        f"map_hash_bucket_size {_power_of_two(longest + 64)};\n"
        f"map_hash_max_size {_power_of_two(max(_NGINX_BUCKETS_MIN, 2 * len(rows)))};\n"
        f'geo {_NGINX_DOLLAR} {{ default "$"; }}\n'
        "# In a server block: if ($moved_from = $request_uri) { return 301 $moved_to; }\n"
    )
    targets = "".join(f"    {asked} {target};\n" for asked, target, _ in words)
    paths = "".join(f"    {asked} {path};\n" for asked, _, path in words)
    return head + _nginx_map("$moved_to", targets) + _nginx_map("$moved_from", paths)


def _nginx_map(variable: str, lines: str) -> str:
    return f'map "$http_host$request_uri" {variable} {{\n    default "";\n{lines}}}\n'


def _nginx_unfit(rows: Mapping[str, _Row]) -> dict[str, str]:
    unfit: dict[str, str] = {}
    taken: set[str] = set()
    for old, row in rows.items():
        if max(map(len, _nginx_words(row))) > _NGINX_WORD_MAX:
            unfit[old] = "too long for an nginx map"
        elif row.asked.lower() in taken:
            unfit[old] = "nginx's map does not tell capitals apart, and another URL has that name"
        else:
            taken.add(row.asked.lower())
    return unfit


def _nginx_words(row: _Row) -> tuple[str, str, str]:
    """What is asked for, where it leads, and its path and query as they must be written."""
    # A $ in a value names a variable, and nginx has no escape for it but one that holds a $.
    path = _quoted(row.path + row.query).replace("$", f"${{{_NGINX_DOLLAR[1:]}}}")
    return _quoted(row.asked), _quoted(row.target.replace("$", "%24")), path


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _apache(rows: list[_Row]) -> str:
    head = (
        "# RewriteEngine On\n"
        '# RewriteMap moved "txt:/etc/apache2/moved.map"\n'
        "# RewriteMap lower int:tolower\n"
        '# RewriteCond "%{THE_REQUEST}" "^\\S+ (\\S+)"\n'
        '# RewriteCond "${moved:${lower:%{HTTP_HOST}}%1}" "(.+)"\n'
        '# RewriteRule "^" "%1" [R=301,L,NE,QSD,UnsafeAllow3F]\n'
        "# Apache before 2.4.60 does not know UnsafeAllow3F: leave it out there.\n"
    )
    return head + "".join(f"{_apache_line(row)}\n" for row in rows)


def _apache_unfit(rows: Mapping[str, _Row]) -> dict[str, str]:
    return {
        old: "too long for an Apache map" for old, row in rows.items() if len(_apache_line(row)) > _APACHE_LINE_MAX
    }


def _apache_line(row: _Row) -> str:
    return f"{row.asked} {row.target}"


def _netlify(rows: list[_Row]) -> str:
    one_host = len({row.host for row in rows}) == 1
    starts = ("" if one_host else f"https://{row.host}" for row in rows)
    return "".join(f"{start}{row.path} {row.target} 301\n" for start, row in zip(starts, rows, strict=True))


def _netlify_unfit(rows: Mapping[str, _Row]) -> dict[str, str]:
    untold = (old for old, row in rows.items() if row.query or _PATTERN.search(row.path))
    return dict.fromkeys(untold, "netlify cannot tell it by its path alone")


def _csv(rows: list[_Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("old", "new", "confidence"))
    writer.writerows((row.old, row.target, f"{row.confidence:.3f}") for row in rows)
    return out.getvalue()


class _Form(NamedTuple):
    """`unfit` tells which rows, by old URL, the form cannot say and why; `text` writes the others."""

    text: Callable[[list[_Row]], str]
    unfit: Callable[[Mapping[str, _Row]], dict[str, str]]


FORMS: dict[str, _Form] = {
    "nginx": _Form(_nginx, _nginx_unfit),
    "apache": _Form(_apache, _apache_unfit),
    "netlify": _Form(_netlify, _netlify_unfit),
    "csv": _Form(_csv, lambda _: {}),
}
