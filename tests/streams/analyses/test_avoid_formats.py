"""Tests of streams/analyses/avoid/avoid_formats.py: the tools that read the formats decide as the list does."""

from __future__ import annotations

import http.server
import json
import re
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import ClassVar
from urllib.robotparser import RobotFileParser
from xml.etree import ElementTree as ET

import pytest

from streams.analyses.avoid.avoid_formats import FORMATS, surt_prefix
from streams.analyses.avoid.avoid_list import Entry, deciding_entry
from streams.errors import InputError


def entry(prefix: str, *, keep: bool = False) -> Entry:
    return Entry(
        prefix=prefix, keep=keep, pages=1, lost=0, unconfirmed=0, kept_prefix="https://b.example/", reason="copy"
    )


A = "https://a.example/"
LIST = [
    entry(A + "docs/"),
    entry(A + "docs/own/", keep=True),
    entry(A + "docs/own/copy/"),
    entry(A + "docs/own/copy/sample.html", keep=True),
    entry(A + "docs/p(1)+$*.html", keep=True),
    entry(A + "docs/sample.html", keep=True),
    entry(A + "x.y/"),
]
SKIPPED = [
    "docs/",
    "docs/1.html",
    "docs/?q=/own/",
    "docs/own/copy/",
    "docs/own/copy/a?b=c",
    "x.y/z",
    "docs/ownership/",
]
KEPT = ["", "doc", "docs", "docs/own/", "docs/own/1.html", "docs/own/copy/sample.html", "docs/sample.html", "xxy/z"]


def text(name: str, entries: list[Entry] | None = None) -> str:
    return "\n".join(FORMATS[name](LIST if entries is None else entries)) + "\n"


def test_the_examples_are_decided_as_expected():
    entries = {entry.prefix: entry for entry in LIST}
    decided = {path: deciding_entry(A + path, entries) for path in SKIPPED + KEPT}
    assert [path for path, entry in decided.items() if entry is not None and not entry.keep] == SKIPPED


def test_robots_decide_alike_in_parsers_with_either_rule():
    protego = pytest.importorskip("protego")
    parser = RobotFileParser()
    parser.parse(text("robots").splitlines())
    longest = protego.Protego.parse(text("robots"))
    for path in SKIPPED + KEPT:
        assert parser.can_fetch("bot", A + path) == longest.can_fetch(A + path, "bot") == (path in KEPT), path


def test_robots_are_refused_for_several_hosts():
    with pytest.raises(InputError, match="2 hosts") as error:
        text("robots", [*LIST, entry("https://b.example/")])
    assert "--host" in error.value.hint


def test_browsertrix_regular_expressions_decide_alike():
    lines = text("browsertrix").splitlines()
    assert lines[0] == "exclude:"
    expressions = [re.compile(json.loads(line.removeprefix("  - "))) for line in lines[1:]]
    for path in SKIPPED + KEPT:
        for url in (A + path, "http://a.example/" + path):
            assert any(expression.search(url) for expression in expressions) == (path in SKIPPED), path


@pytest.mark.parametrize(
    ("url", "surt"),
    [
        ("https://www.a.example/docs/", "http://(example,a,www,)/docs/"),
        ("http://a.example:8080/", "http://(example,a,:8080)/"),
        ("http://192.0.2.7/x/", "http://(192.0.2.7)/x/"),
    ],
)
def test_surt_prefixes(url, surt):
    assert surt_prefix(url) == surt


def surt_decision(rules: list[tuple[str, list[str]]], url: str) -> str:
    """Decide as Heritrix does: each rule applies to the URLs with one of its prefixes, and the last one wins."""
    decision = "ACCEPT"
    for name, prefixes in rules:
        if any(surt_prefix(url).lower().startswith(prefix.lower()) for prefix in prefixes):
            decision = name
    return decision


def test_heritrix_rules_decide_alike():
    tree = ET.fromstring(f"<list>{text('heritrix')}</list>")
    rules = []
    for bean in tree.findall("bean"):
        value = bean.find(".//value")
        decision = bean.find("property[@name='decision']")
        assert value is not None
        assert value.text
        assert decision is not None
        lines = [line.strip() for line in value.text.splitlines() if line.strip()]
        assert all(line.startswith("+") for line in lines)
        rules.append((decision.attrib["value"], [line[1:] for line in lines]))
    for path in SKIPPED + KEPT:
        assert surt_decision(rules, A + path) == ("REJECT" if path in SKIPPED else "ACCEPT"), path


def test_a_surt_file_lists_what_is_skipped():
    lines = text("surt").splitlines()
    skipped = [line.removeprefix("+") for line in lines if line.startswith("+")]
    assert skipped == [surt_prefix(entry.prefix) for entry in LIST if not entry.keep]
    assert sum(line.startswith("# +") for line in lines) == 4


class _Site(http.server.BaseHTTPRequestHandler):
    """A site with two copies of a manual, /a/ and /b/, and an index that links to both."""

    requests: ClassVar[defaultdict[int, list[str]]] = defaultdict(list)

    def do_GET(self):
        self.requests[self.server.server_port].append(self.path)  # type: ignore[attr-defined]
        links = [f"{copy}{n}.html" for copy in ("/a/", "/b/", "/b/own/") for n in range(5)]
        body = "".join(f'<a href="{link}">x</a>' for link in links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


SPIDER = """
import scrapy

class Spider(scrapy.Spider):
    name = "site"
    start_urls = ["{url}"]
    custom_settings = {{
        "DOWNLOADER_MIDDLEWARES": {{"lostfound_avoid.AvoidMiddleware": 50}},
        "TELNETCONSOLE_ENABLED": False,
    }}

    def parse(self, response):
        yield from response.follow_all(css="a")
"""


def test_scrapy_does_not_request_what_the_list_skips(tmp_path: Path):
    pytest.importorskip("scrapy")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{port}/"
    entries = [entry(site + "b/"), entry(site + "b/own/", keep=True), entry(site + "b/3.html", keep=True)]
    (tmp_path / "lostfound_avoid.py").write_text(text("scrapy", entries))
    (tmp_path / "spider.py").write_text(SPIDER.format(url=site))
    command = [sys.executable, "-m", "scrapy", "runspider", "spider.py"]
    try:
        subprocess.run(
            command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, check=True, timeout=120, capture_output=True
        )
    finally:
        server.shutdown()
        server.server_close()
    expected = {"/", "/b/3.html", *(f"/a/{n}.html" for n in range(5)), *(f"/b/own/{n}.html" for n in range(5))}
    assert set(_Site.requests[port]) == expected
