"""Redirect maps for web servers, from answers: chains flattened, loops dropped and reported, hostile URLs kept harmless.

| form    | file                                                          | key            |
|---------|---------------------------------------------------------------|----------------|
| nginx   | `"/old" "https://new";` lines for a `map $request_uri $moved` | path and query |
| apache  | `key value` lines of a RewriteMap `txt:` file                 | path (decoded) |
| netlify | `/old https://new 301` lines of `_redirects`                  | path and query |
| csv     | `old,new,confidence` with a header                            | URL            |

URLs are written percent-encoded, so that none can end a line, a field, a quoted string or name a variable. Servers
see one host: maps other than csv hold the paths of all hosts asked, and two that clash on a path are reported.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from streams.errors import InputError
from streams.find.answer import Answer

FORMS = ("nginx", "apache", "netlify", "csv")
_HOPS_MAX = 64
# Everything that a URL may hold literally and that means nothing in any of the forms.
_HARMFUL = re.compile(r"[^A-Za-z0-9\-._~:/?&=%@!,+;\[\]()*]|[;*()!](?=)")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class RedirectMap(msgspec.Struct, frozen=True):
    """Redirects old -> new with their confidence, and the old URLs that got none, with the reason."""

    moves: dict[str, tuple[str, float]]
    dropped: dict[str, str]


def redirect_map(answers: Iterable[Answer], confidence_min: float = 0.5) -> RedirectMap:
    """Redirects from moved URLs: the best candidate at or above `confidence_min`, chains followed to their end."""
    direct = {
        answer.url: (answer.candidates[0].url, answer.candidates[0].confidence)
        for answer in answers
        if answer.status == "moved" and answer.candidates and answer.candidates[0].confidence >= confidence_min
    }
    return flatten(direct)


def flatten(direct: Mapping[str, tuple[str, float]]) -> RedirectMap:
    """Follow each old URL to where its chain ends; URLs whose chain comes back to itself are dropped.

    The confidence of a chain is the product of its steps.
    """
    moves: dict[str, tuple[str, float]] = {}
    dropped: dict[str, str] = {}
    steps = {_same(old): target for old, target in direct.items()}
    for old in direct:
        target, confidence = direct[old]
        seen = {_same(old)}
        while _same(target) in steps and _same(target) not in seen and len(seen) < _HOPS_MAX:
            seen.add(_same(target))
            target, more = steps[_same(target)]
            confidence *= more
        if _same(target) in seen or _same(target) in steps:
            dropped[old] = "loop"
        else:
            moves[old] = (target, confidence)
    return RedirectMap(moves, dropped)


def render(redirects: RedirectMap, form: str) -> tuple[str, dict[str, str]]:
    """The text of a map in one of FORMS, and what was left out of it: old URL -> reason."""
    if form == "csv":
        return _csv(redirects), dict(redirects.dropped)
    line = _LINES.get(form)
    if line is None:
        raise InputError(f"no redirect map of the form {form!r}", f"use one of {', '.join(FORMS)}")
    dropped = dict(redirects.dropped)
    rows: dict[str, tuple[str, str]] = {}
    for old, (new, _) in sorted(redirects.moves.items()):
        path, target = _path(old), _safe(new)
        key = unquote(path.split("?", 1)[0]) if form == "apache" else path
        if form == "apache" and ("?" in path or re.search(r"[\s\x00-\x1f#\x7f]", key) or not key.isascii()):
            dropped[old] = "apache cannot look this path up"
        elif form == "netlify" and re.search(r"(?<=/)(?:\*|:)", unquote(path)):
            dropped[old] = "netlify would read this path as a pattern"
        elif key in rows and rows[key][1] != target:
            dropped[old] = f"the same path as {rows[key][0]}"
        else:
            rows[key] = (old, target)
    head = _HEADS[form]
    return "".join([head, *(line(key, target) for key, (_, target) in rows.items())]), dropped


def _same(url: str) -> str:
    """What two URLs share that a server would answer alike: scheme and fragment aside."""
    return url.split("#", 1)[0].partition("://")[2] or url


def _path(url: str) -> str:
    parts = urlsplit(_safe(url))
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _safe(url: str) -> str:
    """A URL percent-encoded until it holds nothing that any of the forms could read as more than a URL."""
    bare, _, fragment = url.partition("#")
    encode = _encode
    return encode(bare) + (f"#{encode(fragment)}" if fragment else "")


def _encode(text: str) -> str:
    return _HARMFUL.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode("utf-8", "replace")), text)


def _nginx(key: str, target: str) -> str:
    return f'"{key}" "{target}";\n'


def _apache(key: str, target: str) -> str:
    return f"{key} {target}\n"


def _netlify(key: str, target: str) -> str:
    path, question, query = key.partition("?")
    wanted = "".join(f" {pair}" for pair in query.split("&")) if question else ""
    return f"{path}{wanted} {target} 301\n"


def _csv(redirects: RedirectMap) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("old", "new", "confidence"))
    for old, (new, confidence) in sorted(redirects.moves.items()):
        writer.writerow((_cell(old), _cell(new), f"{confidence:.3f}"))
    return out.getvalue()


def _cell(url: str) -> str:
    """A URL that a spreadsheet takes for text and a line reader for one line."""
    safe = _safe(url)
    return f"'{safe}" if safe.startswith(_FORMULA) else safe


_LINES = {"nginx": _nginx, "apache": _apache, "netlify": _netlify}
_HEADS = {
    "nginx": '# include in: map $request_uri $moved { default ""; include this; }  then: if ($moved) { return 301 $moved; }\n',
    "apache": "# RewriteMap moved txt:this\n# RewriteCond ${moved:%{REQUEST_URI}} (.+)\n# RewriteRule ^ %1 [R=301,L,NE]\n",
    "netlify": "",
}
