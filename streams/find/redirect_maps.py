"""Write redirect maps for web servers: chains are flattened, loops are dropped, and hostile URLs are escaped.

| format  | file                               | look-up key                             |
|---------|------------------------------------|-----------------------------------------|
| nginx   | `map` blocks for the http section  | host, path and query as requested       |
| apache  | a text file for RewriteMap         | host, path and query as requested       |
| netlify | a `_redirects` file                | path; host and path if hosts differ     |
| csv     | `old,new,confidence` with a header | none                                    |

URLs are written in WHATWG's normal form, which has no spaces, line ends or control characters. Characters with a
special meaning in a format are escaped or percent-encoded. User names and passwords are never written. A redirect
that a format cannot express is left out and reported.
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

_NETLIFY_WILDCARD = re.compile(r"\*|/:")  # in a path, netlify treats these as a splat or a placeholder
_PRINTABLE_ASCII = re.compile(r"[!-~]+")
_APACHE_LINE_MAX = 1000  # mod_rewrite reads 1024 bytes at a time, and treats the rest of a line as a new entry
_NGINX_WORD_MAX = 4000  # nginx accepts words of less than 4096 bytes, including quotes and escapes
_NGINX_HASH_SIZE_MIN = 2048  # nginx's default for map_hash_max_size
_NGINX_DOLLAR = "$moved_dollar"  # the variable that contains a $


class RedirectMap(msgspec.Struct, frozen=True):
    """Redirects as (target, confidence), and the reasons for dropped redirects, both by old URL."""

    moves: dict[str, tuple[str, float]]
    dropped: dict[str, str]


def build_redirect_map(answers: Iterable[Answer], confidence_min: float = 0.5) -> RedirectMap:
    """Return flattened redirects from missing URLs to their best candidates with at least `confidence_min`.

    If `confidence_min` is below the confidence that makes a URL `moved`, redirects of `gone` URLs are included at the
    caller's risk. A candidate with confidence 0, such as an error page, is never a target.
    """
    best = ((a.url, a.candidates[0]) for a in answers if a.status in {"moved", "gone"} and a.candidates)
    return flatten_chains(
        {url: (c.url, c.confidence) for url, c in best if c.confidence >= confidence_min and c.confidence}
    )


def flatten_chains(direct: Mapping[str, tuple[str, float]]) -> RedirectMap:
    """Replace each chain by a redirect to its end; its confidence is the product of the confidences of the steps.

    URLs with the same key are treated as one, because on most servers a redirect from a page's http URL to its https
    URL would be a loop. All URLs that lead into a loop are dropped.
    """
    steps: dict[bytes, tuple[bytes, str, float]] = {}  # target key, target and confidence by old key
    dropped: dict[str, str] = {}
    key_by_url: dict[str, bytes] = {}
    for old, (target, confidence) in direct.items():
        try:
            key, target_key = url_key(old), url_key(target)
        except BadUrl:
            dropped[old] = "is not a URL that can be redirected"
            continue
        if key in steps:
            continue  # a different spelling of an earlier URL
        key_by_url[old] = key
        steps[key] = target_key, target, confidence
    moves: dict[str, tuple[str, float]] = {}
    for old, key in sorted(key_by_url.items()):
        visited = {key}
        target_key, target, confidence = steps[key]
        while target_key in steps and target_key not in visited:
            visited.add(target_key)
            target_key, target, step_confidence = steps[target_key]
            confidence *= step_confidence
        if target_key in visited:
            dropped[old] = "leads into a redirect loop"
        else:
            moves[old] = target, confidence
    return RedirectMap(moves, dropped)


def render(redirects: RedirectMap, map_format: str) -> tuple[str, dict[str, str]]:
    """Return the text of a map, and the reason for each dropped old URL. Raise InputError for an unknown format."""
    if map_format not in FORMATS:
        raise InputError(f"unknown redirect map format {map_format!r}", f"use one of {', '.join(FORMATS)}")
    write, find_fault = FORMATS[map_format]
    dropped = dict(redirects.dropped)
    rows: list[_Row] = []
    used_keys: set[str] = set()  # in lower case
    for old, (new, confidence) in redirects.moves.items():
        source, target = _without_credentials(old), _without_credentials(new)
        row = _Row(source.href, source.host, source.pathname, source.search, target.href, confidence)
        if not all(map(_PRINTABLE_ASCII.fullmatch, (row.host, row.path, row.query or "-", row.target))):
            dropped[old] = "has characters that cannot be written to a redirect map"
        elif fault := find_fault(row, used_keys):
            dropped[old] = fault
        else:
            rows.append(row)
            used_keys.add(row.lookup_key.lower())
    return write(rows), dropped


def _without_credentials(url: str) -> can_ada.URL:
    parsed = can_ada.parse(url)
    parsed.username = parsed.password = ""
    return parsed


class _Row(NamedTuple):
    """A redirect, with the old URL as browsers request it: `host` has any unusual port, and `query` has its `?`.

    All fields are ASCII, so their lengths are in bytes.
    """

    old: str
    host: str
    path: str
    query: str
    target: str
    confidence: float

    @property
    def lookup_key(self) -> str:
        return self.host + self.path + self.query


def _write_nginx(rows: list[_Row]) -> str:
    """Write two maps of old URLs: to targets, and to the exact old paths, because nginx look-ups ignore case.

    With one map, a page whose name differs from an old name only in case would also be redirected. If the site
    changed all names to lower case, the page would be redirected to itself.
    """
    words = [_nginx_words(row) for row in rows]
    longest = max((len(row.lookup_key) for row in rows), default=0)
    text = (
        "# Include in http{}, before the first map. If http{} sets these two sizes already, keep the larger values.\n"
        f"map_hash_bucket_size {_next_power_of_two(longest + 64)};\n"
        f"map_hash_max_size {_next_power_of_two(max(_NGINX_HASH_SIZE_MIN, 2 * len(rows)))};\n"
        f'geo {_NGINX_DOLLAR} {{ default "$"; }}\n'
        "# In a server block: if ($moved_from = $request_uri) { return 301 $moved_to; }\n"
    )
    for column, variable in ((1, "$moved_to"), (2, "$moved_from")):
        lines = "".join(f"    {row_words[0]} {row_words[column]};\n" for row_words in words)
        text += f'map "$http_host$request_uri" {variable} {{\n    default "";\n{lines}}}\n'
    return text


def _find_nginx_fault(row: _Row, used_keys: set[str]) -> str | None:
    if max(map(len, _nginx_words(row))) > _NGINX_WORD_MAX:
        return "is too long for an nginx map"
    is_used = row.lookup_key.lower() in used_keys
    return "differs from another URL only in case, which an nginx map ignores" if is_used else None


def _nginx_words(row: _Row) -> tuple[str, str, str]:
    """Return the look-up key, the target, and the path with its query in the exact spelling, all quoted."""
    # A $ in a value begins the name of a variable. As nginx has no escape for $, the $ is read from a variable.
    path = _quote(row.path + row.query).replace("$", f"${{{_NGINX_DOLLAR[1:]}}}")
    return _quote(row.lookup_key), _quote(row.target.replace("$", "%24")), path


def _next_power_of_two(minimum: int) -> int:
    return 1 << (minimum - 1).bit_length()


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_apache(rows: list[_Row]) -> str:
    header = (
        "# RewriteEngine On\n"
        '# RewriteMap moved "txt:/etc/apache2/moved.map"\n'
        "# RewriteMap lower int:tolower\n"
        '# RewriteCond "%{THE_REQUEST}" "^\\S+ (\\S+)"\n'
        '# RewriteCond "${moved:${lower:%{HTTP_HOST}}%1}" "(.+)"\n'
        '# RewriteRule "^" "%1" [R=301,L,NE,QSD,UnsafeAllow3F]\n'
        "# Omit UnsafeAllow3F on Apache before 2.4.60, which does not know this flag.\n"
    )
    return header + "".join(f"{_apache_line(row)}\n" for row in rows)


def _find_apache_fault(row: _Row, _used_keys: set[str]) -> str | None:
    return "is too long for an Apache map" if len(_apache_line(row)) > _APACHE_LINE_MAX else None


def _apache_line(row: _Row) -> str:
    return f"{row.lookup_key} {row.target}"


def _write_netlify(rows: list[_Row]) -> str:
    has_one_host = len({row.host for row in rows}) == 1
    origins = ("" if has_one_host else f"https://{row.host}" for row in rows)
    return "".join(f"{origin}{row.path} {row.target} 301\n" for origin, row in zip(origins, rows, strict=True))


def _find_netlify_fault(row: _Row, _used_keys: set[str]) -> str | None:
    is_unmatchable = row.query or _NETLIFY_WILDCARD.search(row.path)
    return "has a query, or a path with * or /:, which netlify cannot match" if is_unmatchable else None


def _write_csv(rows: list[_Row]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("old", "new", "confidence"))
    writer.writerows((row.old, row.target, f"{row.confidence:.3f}") for row in rows)
    return out.getvalue()


# Per format: the function that writes rows, and the function that returns why a row cannot be written.
FORMATS: dict[str, tuple[Callable[[list[_Row]], str], Callable[[_Row, set[str]], str | None]]] = {
    "nginx": (_write_nginx, _find_nginx_fault),
    "apache": (_write_apache, _find_apache_fault),
    "netlify": (_write_netlify, _find_netlify_fault),
    "csv": (_write_csv, lambda _row, _used_keys: None),
}
