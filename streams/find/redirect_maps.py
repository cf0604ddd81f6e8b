"""Write redirect maps for web servers: chains are flattened, loops are dropped, and hostile URLs are escaped.

| format             | file                                         | look-up key                             |
|--------------------|----------------------------------------------|-----------------------------------------|
| nginx              | `map` blocks for the http section            | host, path and query as requested       |
| apache             | a text file for RewriteMap                   | host, path and query as requested       |
| caddy              | directives for a site block of a Caddyfile   | host, path and query as requested       |
| netlify            | a `_redirects` file                          | path, and host if there are several     |
| cloudflare         | the CSV file of a bulk redirect list         | host and path                           |
| vercel             | `redirects` of vercel.json                   | path, and host if there are several     |
| mkdocs-redirects   | settings of the plugin in mkdocs.yml         | source file of the old page             |
| sphinx-reredirects | the dictionary `redirects` of conf.py        | document name of the old page           |
| csv                | columns `old`, `new` and `confidence`        | none                                    |

URLs are written in WHATWG's normal form, which has no spaces, line ends or control characters. Characters with a
special meaning in a format are escaped or percent-encoded. User names and passwords are never written. A redirect
that a format cannot express is dropped and reported.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

import can_ada
import msgspec

from streams.errors import BadUrl, InputError
from streams.find.answer import Answer
from streams.find.map_formats import hosting_services, site_generators, web_servers
from streams.find.map_formats.map_row import MapFormat, MapRow, exact_key, key_without_query, split_url
from streams.urls import url_key

_PRINTABLE_ASCII = re.compile(r"[!-~]+")


class RedirectMap(msgspec.Struct, frozen=True):
    """Redirects as (target, confidence), and the reasons why others were dropped, both by old URL."""

    moves: dict[str, tuple[str, float]]
    dropped: dict[str, str]


def build_redirect_map(answers: Iterable[Answer], confidence_min: float) -> RedirectMap:
    """Return flattened redirects from missing URLs to their best candidates.

    Only candidates whose confidence is at least `confidence_min` are used. If `confidence_min` is below the
    confidence that makes a URL `moved`, redirects of `gone` URLs are included at the caller's risk. A candidate with
    confidence 0, such as an error page, is never a target. A redirect is dropped if an editor chose its target and
    the target is itself missing.
    """
    best = {a.url: a.candidates[0] for a in answers if a.status in {"moved", "gone"} and a.candidates}
    confident = {url: c for url, c in best.items() if c.confidence >= confidence_min and c.confidence}
    redirects = flatten_chains({url: (c.url, c.confidence) for url, c in confident.items()})
    missing = {c.url for c in confident.values() if any(e.kind == "target_missing" for e in c.evidence)}
    dropped = {
        old: "leads to a URL that is missing too" for old, (new, _) in redirects.moves.items() if new in missing
    }
    moves = {old: move for old, move in redirects.moves.items() if old not in dropped}
    return RedirectMap(moves, redirects.dropped | dropped)


def flatten_chains(direct: Mapping[str, tuple[str, float]]) -> RedirectMap:
    """Replace each chain by a redirect to its end, whose confidence is the product of the confidences of all steps.

    URLs with the same key are treated as one, because on most servers a redirect from a page's http URL to its https
    URL would be a loop. All URLs that lead into a loop are dropped.
    """
    steps: dict[bytes, tuple[bytes, str, float]] = {}  # by key of the old URL: target key, target and confidence
    dropped: dict[str, str] = {}
    key_by_url: dict[str, bytes] = {}
    for old, (target, confidence) in direct.items():
        try:
            key, target_key = url_key(old), url_key(target)
        except BadUrl:
            dropped[old] = "is not a URL that can be redirected"
            continue
        if key in steps:
            continue  # an earlier URL has the same key
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


def render(redirects: RedirectMap, format_name: str, site_url: str | None = None) -> tuple[str, dict[str, str]]:
    """Return the text of a map, and the reason for each dropped old URL. Raise InputError for an unknown format.

    `site_url` is the root of the site, for formats that identify pages by their paths on the site. By default, it is
    the root of the host with the most old URLs.
    """
    if format_name not in FORMATS:
        raise InputError(f"unknown redirect map format {format_name!r}", f"use one of {', '.join(FORMATS)}")
    map_format = FORMATS[format_name]
    dropped = dict(redirects.dropped)
    rows, target_keys = _build_rows(redirects, map_format, dropped)
    if map_format.is_single_site:
        rows = _set_page_paths(rows, site_url, dropped)
    accepted: list[MapRow] = []
    used_keys: set[str] = set()
    for row in rows:
        match_key = map_format.match_key(row.host, row.path, row.query)
        unique_key = map_format.unique_key(row.host, row.path, row.query) if map_format.unique_key else match_key
        if problem := map_format.find_problem(row):
            dropped[row.captured_url] = problem
        elif unique_key in used_keys:
            dropped[row.captured_url] = (
                f"differs from another URL only in {map_format.ignored_part}, which {format_name} ignores"
            )
        elif match_key in target_keys:
            dropped[row.captured_url] = (
                f"differs from a new URL only in {map_format.ignored_part}, which {format_name} ignores: "
                "the new URL would be redirected too"
            )
        else:
            accepted.append(row)
            used_keys.add(unique_key)
    if map_format.rows_max is not None:
        accepted = _keep_most_confident(accepted, map_format.rows_max, format_name, dropped)
    return map_format.write(accepted), dropped


def _build_rows(
    redirects: RedirectMap, map_format: MapFormat, dropped: dict[str, str]
) -> tuple[list[MapRow], set[str]]:
    """Return the redirects as rows, and the match keys of all targets."""
    rows: list[MapRow] = []
    target_keys: set[str] = set()
    for old, (new, confidence) in redirects.moves.items():
        source, target = _without_credentials(old), _without_credentials(new)
        row = MapRow(old, source.href, *split_url(source), target.href, confidence)
        target_keys.add(map_format.match_key(*split_url(target)))
        if all(map(_PRINTABLE_ASCII.fullmatch, (row.host, row.path, row.query or "-", row.target))):
            rows.append(row)
        else:
            dropped[old] = "has characters that cannot be written to a redirect map"
    return rows, target_keys


def _without_credentials(url: str) -> can_ada.URL:
    parsed = can_ada.parse(url)
    parsed.username = parsed.password = ""
    return parsed


def _set_page_paths(rows: list[MapRow], site_url: str | None, dropped: dict[str, str]) -> list[MapRow]:
    """Return the rows inside the site (a host and a folder) with their `page_path`. Drop the others."""
    if site_url is not None:
        host, path, _ = split_url(can_ada.parse(site_url))
        site = host + path[: path.rindex("/") + 1]
    else:
        site = "".join(host for host, _ in Counter(row.host for row in rows).most_common(1)) + "/"
    pages: list[MapRow] = []
    for row in rows:
        url = row.host + row.path
        if url.startswith(site):
            pages.append(row._replace(page_path=unquote(url[len(site) :], errors="replace")))
        else:
            dropped[row.captured_url] = f"is outside the site {site}; write a separate map for it with --prefix"
    return pages


def _keep_most_confident(rows: list[MapRow], limit: int, format_name: str, dropped: dict[str, str]) -> list[MapRow]:
    """Return the `limit` rows with the highest confidence in their original order. Drop the others."""
    excess_rows = sorted(rows, key=lambda row: -row.confidence)[limit:]
    for row in excess_rows:
        dropped[row.captured_url] = (
            f"the limit of {format_name} is {limit:,} redirects; the redirects with higher confidence are kept"
        )
    return [row for row in rows if row.captured_url not in dropped]


def _write_csv(rows: list[MapRow]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("old", "new", "confidence"))
    writer.writerows((row.old_url, row.target, f"{row.confidence:.3f}") for row in rows)
    return out.getvalue()


FORMATS: dict[str, MapFormat] = {
    "nginx": MapFormat(
        web_servers.write_nginx, web_servers.find_nginx_problem, exact_key, "case", web_servers.nginx_unique_key
    ),
    "apache": MapFormat(web_servers.write_apache, web_servers.find_apache_problem, exact_key),
    "caddy": MapFormat(web_servers.write_caddy, web_servers.find_caddy_problem, exact_key),
    "netlify": MapFormat(
        hosting_services.write_netlify,
        hosting_services.find_netlify_problem,
        hosting_services.netlify_match_key,
        "a trailing slash or the query",
    ),
    "cloudflare": MapFormat(
        hosting_services.write_cloudflare, hosting_services.find_cloudflare_problem, key_without_query, "the query"
    ),
    "vercel": MapFormat(
        hosting_services.write_vercel,
        hosting_services.find_vercel_problem,
        key_without_query,
        "the query",
        rows_max=hosting_services.VERCEL_REDIRECTS_MAX,
    ),
    "mkdocs-redirects": MapFormat(
        site_generators.write_mkdocs,
        site_generators.find_mkdocs_problem,
        site_generators.page_match_key,
        "the suffix (`/`, `.html` or `/index.html`) or the query",
        is_single_site=True,
    ),
    "sphinx-reredirects": MapFormat(
        site_generators.write_sphinx,
        site_generators.find_sphinx_problem,
        site_generators.page_match_key,
        "the suffix (`/`, `.html` or `/index.html`) or the query",
        is_single_site=True,
    ),
    "csv": MapFormat(_write_csv, lambda _row: None, exact_key),
}
