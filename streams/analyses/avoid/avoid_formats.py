"""Write an avoid-list in the formats of crawlers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from streams.analyses.avoid.avoid_list import Entry, with_depths
from streams.errors import InputError
from streams.urls import url_key

_PORT = re.compile(r":\d+$")
_MIDDLEWARE_TEMPLATE = Path(__file__).with_name("scrapy_template.py")
_RULE_BEAN = """\
<bean class="org.archive.modules.deciderules.surt.SurtPrefixedDecideRule">
  <property name="decision" value="{decision}"/>
  <property name="surtsSource">
    <bean class="org.archive.spring.ConfigString">
      <property name="value">
        <value>
{lines}
        </value>
      </property>
    </bean>
  </property>
</bean>"""


def surt_prefix(url: str) -> str:
    """Return a URL prefix in the SURT form of Heritrix, which is the same for http and https."""
    host, path = url_key(url).decode().split(")", 1)
    port = match.group() if (match := _PORT.search(host)) else ""
    name = host.removesuffix(port)
    comma = "" if name.startswith("[") or re.fullmatch(r"[\d.]+", name) else ","
    return f"http://({name}{comma}{port}){path}"


def surt(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of a SURT prefix file: the prefixes to skip, and then, in comments, the prefixes to keep."""
    ordered = sorted(entries, key=lambda entry: entry.prefix)
    yield "# skip: load these prefixes with a SurtPrefixedDecideRule that decides REJECT"
    yield from (f"+{surt_prefix(entry.prefix)}" for entry in ordered if not entry.keep)
    if any(entry.keep for entry in ordered):
        yield "# keep: move these prefixes, without '# ', to a rule that decides ACCEPT after the other"
        yield from (f"# +{surt_prefix(entry.prefix)}" for entry in ordered if entry.keep)


def heritrix(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield decide rules for the scope of a Heritrix job. The last matching rule wins, so inner entries come last."""
    entries_by_depth = sorted(with_depths(entries), key=lambda pair: pair[1])
    yield "<!-- add these rules to the scope's DecideRuleSequence, before its PrerequisiteAcceptDecideRule -->"
    for _, level in groupby(entries_by_depth, key=lambda pair: pair[1]):
        by_decision: dict[bool, list[str]] = {False: [], True: []}
        for entry, _ in level:
            by_decision[entry.keep].append(escape("+" + surt_prefix(entry.prefix)))
        for keep, lines in by_decision.items():
            if lines:
                yield _RULE_BEAN.format(decision="ACCEPT" if keep else "REJECT", lines="\n".join(sorted(lines)))


def browsertrix(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the `exclude` list of a Browsertrix crawl. Inner entries are negative lookaheads, so that they win."""
    ordered = list(entries)
    yield "exclude:"
    for entry, depth in with_depths(ordered):
        if depth == 0:
            inner = [other for other in ordered if _is_inside(other, entry)]
            prefix = _escape_regex(entry.prefix.partition("://")[2])
            yield "  - " + json.dumps(f"^https?://{prefix}{_lookaheads(entry.prefix, inner)}")


def _lookaheads(prefix: str, inner: list[Entry]) -> str:
    """Return nested lookaheads that exclude the entries below `prefix`."""
    result = ""
    for child, depth in with_depths(inner):
        if depth == 0:
            inside_child = [entry for entry in inner if _is_inside(entry, child)]
            end = "" if child.prefix.endswith("/") else "$"
            result += (
                f"(?!{_escape_regex(child.prefix[len(prefix) :])}{end}{_lookaheads(child.prefix, inside_child)})"
            )
    return result


def _is_inside(entry: Entry, other: Entry) -> bool:
    return entry is not other and other.prefix.endswith("/") and entry.prefix.startswith(other.prefix)


def _escape_regex(text: str) -> str:
    """Escape text for a regular expression of JavaScript, in which other characters must not be escaped."""
    return re.sub(r"[\\^$.*+?()\[\]{}|/]", r"\\\g<0>", text)


def robots(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield the lines of a robots.txt of one host.

    Longer paths come first, because some parsers apply the first rule that matches, and others the longest one. Raise
    InputError if the list has several hosts.
    """
    hosts = sorted({urlsplit(entry.prefix).netloc for entry in entries})
    if len(hosts) > 1:
        shown = ", ".join(hosts[:5]) + (", ..." if len(hosts) > 5 else "")
        raise InputError(
            f"the list has {len(hosts)} hosts, but a robots.txt is for one host: {shown}", "use --host HOST"
        )
    yield "User-agent: *"
    for entry in sorted(entries, key=lambda entry: (-len(entry.prefix), entry.prefix)):
        parts = urlsplit(entry.prefix)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        path = path.replace("*", "%2A").replace("$", "%24")
        yield f"{'Allow' if entry.keep else 'Disallow'}: {path}"


def scrapy(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a Python module with a downloader middleware for Scrapy, which needs nothing else."""
    decisions = sorted((entry.prefix.partition("://")[2], entry.keep) for entry in entries)
    lines = [f"    {json.dumps(prefix)}: {keep}," for prefix, keep in decisions]
    table = "\n".join(["KEEP: dict[str, bool] = {", *lines, "}"])
    yield _MIDDLEWARE_TEMPLATE.read_text(encoding="utf-8").rstrip().replace("KEEP: dict[str, bool] = {}", table)


FORMATS: dict[str, Callable[[Iterable[Entry]], Iterator[str]]] = {
    "surt": surt,
    "heritrix": heritrix,
    "scrapy": scrapy,
    "browsertrix": browsertrix,
    "robots": robots,
}
