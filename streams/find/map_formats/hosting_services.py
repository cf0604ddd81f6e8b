"""Redirect maps for hosting services: Netlify, Cloudflare and Vercel. All of them ignore the query of a request."""

from __future__ import annotations

import csv
import io
import json
import re

from streams.find.map_formats.map_row import MapRow, percent_encode

_QUERY_FAULT = "has a query, which {} cannot match"
_NETLIFY_WILDCARD = re.compile(r"\*|/:")  # Netlify reads * in a path as a splat, and : after / as a placeholder
_CLOUDFLARE_URL_MAX = 32 * 1024
# URL redirects across all bulk redirect lists of an account, by its highest plan; more are available on request.
CLOUDFLARE_REDIRECTS_BY_PLAN = {"Free": 10_000, "Pro": 25_000, "Business": 50_000, "Enterprise": 1_000_000}
VERCEL_REDIRECTS_MAX = 2_048  # in vercel.json; Vercel refuses a deployment with more
_VERCEL_URL_MAX = 4_096
_VERCEL_SPECIAL = re.compile(r"[\\(){}:*+?]")  # characters with a special meaning in a source


def write_netlify(rows: list[MapRow]) -> str:
    """Write a `_redirects` file. If all old URLs have one host, only their paths are written."""
    has_one_host = len({row.host for row in rows}) == 1
    origins = ("" if has_one_host else f"https://{row.host}" for row in rows)
    return "".join(f"{origin}{row.path} {row.target} 301\n" for origin, row in zip(origins, rows, strict=True))


def find_netlify_problem(row: MapRow) -> str | None:
    """Report a query or a wildcard."""
    is_unmatchable = row.query or _NETLIFY_WILDCARD.search(row.path)
    return "has a query, or a path with * or /:, which netlify cannot match" if is_unmatchable else None


def netlify_match_key(host: str, path: str, _query: str) -> str:
    """Return the URL without its query and trailing slash: Netlify applies a rule with and without the slash."""
    return host + path.rstrip("/")


def write_cloudflare(rows: list[MapRow]) -> str:
    """Write the CSV file of a bulk redirect list: source, target and status, without a header.

    A source without a scheme matches http and https.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((row.source, row.target, 301) for row in rows)
    return out.getvalue()


def describe_cloudflare_limit(redirects: int) -> str:
    """Return which plan a number of redirects needs. Return an empty string if any plan is sufficient.

    The map cannot contain this as a comment, because Cloudflare reads each line of the CSV as a redirect.
    """
    if redirects <= min(CLOUDFLARE_REDIRECTS_BY_PLAN.values()):
        return ""
    limits = ", ".join(f"{limit:,} ({plan})" for plan, limit in CLOUDFLARE_REDIRECTS_BY_PLAN.items())
    return f"the map has {redirects:,} redirects; Cloudflare's limit per account depends on the plan: {limits}"


def find_cloudflare_problem(row: MapRow) -> str | None:
    """Report a query, a port or a URL that is too long."""
    if row.query:
        return _QUERY_FAULT.format("Cloudflare")
    if ":" in row.host:
        return "has a port, which Cloudflare cannot match"
    is_too_long = max(len(row.source), len(row.target)) > _CLOUDFLARE_URL_MAX
    return "is too long for Cloudflare" if is_too_long else None


def write_vercel(rows: list[MapRow]) -> str:
    """Write the key `redirects` of vercel.json. If the old URLs have several hosts, each redirect names its host."""
    has_one_host = len({row.host for row in rows}) == 1
    lines = []
    for row in rows:
        redirect: dict[str, object] = {"source": _vercel_source(row)}
        if not has_one_host:
            redirect["has"] = [{"type": "host", "value": re.escape(row.host)}]
        redirect |= {"destination": _vercel_destination(row), "statusCode": 301}
        lines.append(f"    {json.dumps(redirect)}")
    return '{\n  "redirects": [\n' + (",\n".join(lines) + "\n" if lines else "") + "  ]\n}\n"


def find_vercel_problem(row: MapRow) -> str | None:
    """Report a query or a URL that is too long."""
    if row.query:
        return _QUERY_FAULT.format("Vercel")
    is_too_long = max(len(_vercel_source(row)), len(_vercel_destination(row))) > _VERCEL_URL_MAX
    return "is too long for Vercel" if is_too_long else None


def _vercel_source(row: MapRow) -> str:
    return _VERCEL_SPECIAL.sub(r"\\\g<0>", row.path)


def _vercel_destination(row: MapRow) -> str:
    """Encode the characters with which Vercel refers to parts of the source."""
    return percent_encode(row.target, ":$\\")
