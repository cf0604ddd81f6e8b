"""Try lostfound as a new user: installed from a wheel, in a folder that contains no source code.

Each test is a session at the command line. Nothing of the project is imported.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Result(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


class Session:
    """A working folder, and the `lostfound` command installed from the wheel."""

    def __init__(self, command: Path, folder: Path) -> None:
        self.command, self.folder = command, folder

    def run(self, *arguments: str | Path, stdin: str = "", **environment: str) -> Result:
        """Run `lostfound` and return its result. Fail if it printed a traceback."""
        done = subprocess.run(
            [self.command, *map(str, arguments)],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder.parent)} | environment,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file into the working folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def json(self, *arguments: str | Path) -> list[Any]:
        """Run a command with `--json` and return its objects. Fail if the command fails."""
        result = self.run(*arguments, "--json")
        assert result.code == 0, result
        return [json.loads(line) for line in result.out.splitlines()]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one test process at a time run the block."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def copy_compiled_functions(site_packages: Path) -> None:
    """Copy numba's cache of the checkout, because compiling takes half a minute.

    Numba uses the cache of a source file if the size and the modification time of the file are those in the cache.
    """
    for cache in [
        path for package in ("streams", "state") for path in (ROOT / package).rglob("__pycache__/*.nb[ci]")
    ]:
        source = cache.parents[1] / f"{cache.name.partition('.')[0]}.py"
        installed = site_packages / source.relative_to(ROOT)
        if installed.exists() and installed.read_bytes() == source.read_bytes():
            os.utime(installed, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
            (installed.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy(cache, installed.parent / "__pycache__")


@pytest.fixture(scope="session")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of `lostfound` in a new virtual environment, which all test processes share."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    environment, wheels = shared / "wheel-environment", shared / "wheels"
    with locked(shared / "wheel.lock"):
        if not (environment / "installed").exists():
            build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
            subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
            subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
            (wheel,) = wheels.glob("*.whl")
            pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, "--no-compile", str(wheel)], check=True, capture_output=True)
            (site_packages,) = environment.glob("lib/python*/site-packages")
            copy_compiled_functions(site_packages)
            (environment / "installed").touch()
    return environment / "bin" / "lostfound"


@pytest.fixture
def session(command: Path, tmp_path: Path) -> Session:
    folder = tmp_path / "work"
    folder.mkdir()
    return Session(command, folder)


def text(topic: str, changed: int = 0) -> str:
    """Return a text of 40 sentences about a topic, in which `changed` sentences are different."""
    generator, other = random.Random(topic), random.Random(f"{topic}, newer edition")
    generators = [other] * changed + [generator] * (40 - changed)
    sentences = [[f"{topic}{source.randrange(1000)}" for _ in range(12)] for source in generators]
    return "\n".join(" ".join(sentence).capitalize() + "." for sentence in sentences)


def html(topic: str, changed: int = 0) -> str:
    return f"<html><head><title>{topic}</title></head><body><p>{text(topic, changed)}</p></body></html>"


def jsonl(*pages: dict[str, Any]) -> str:
    return "".join(json.dumps(page) + "\n" for page in pages)


def page(url: str, topic: str, changed: int = 0, **fields: Any) -> dict[str, Any]:
    return {"url": url, "fetch_time": "2026-01-01T00:00:00Z", "html": html(topic, changed), **fields}


def rows(output: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(output)))


def crawl(host: str, topics: list[str], sweep_time: str = "2026-01-01T00:00:00Z") -> str:
    """Return the JSONL of a small site, one page per topic."""
    return jsonl(*(page(f"https://{host}/{topic}.html", topic, fetch_time=sweep_time) for topic in topics))


TOPICS = ["rivers", "bridges", "harbours", "lighthouses", "canals", "ferries"]
LATER = "2026-02-01T00:00:00Z"
MAP_FORMATS = ("nginx", "csv", "mkdocs-redirects")  # tests/streams/find tests all formats


USELESS_FILES = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\n",
    "crawl.warc.gz": "<html><body>404 Not Found</body></html>",
    "index.cdx": " CDX N b a m s k r M S V g\norg,example)/ 20260101000000 https://example.org/ text/html 200\n",
    "table.csv": "name,price\nrope,3\n",
    "empty.jsonl": "",
}


def test_1_an_input_without_a_page_changes_nothing(session: Session) -> None:
    session.write("one.jsonl", crawl("a.example.org", TOPICS))
    assert session.run("ingest", "one.jsonl", "--sweep", "1").code == 0
    before = session.run("sweep", "list").out
    for name, content in USELESS_FILES.items():
        refused = session.run("ingest", session.write(name, content), "--sweep", "2")
        assert refused.code == 2, refused
        assert name in refused.err
    assert session.run("sweep", "list").out == before
    assert session.run("find", "--missing").code == 1
    assert session.run("ingest", session.write("two.jsonl", crawl("a.example.org", TOPICS)), "--sweep", "2").code == 0


def test_2_scripts_and_images_are_not_pages(session: Session) -> None:
    script = text("jquery")
    files = [
        {"url": "https://a.example.org/jquery-3.5.1.js", "mime": "text/javascript; charset=UTF-8", "body": script},
        {"url": "https://a.example.org/style.css", "mime": "Text/CSS", "body": text("colours")},
        {"url": "https://a.example.org/old.js", "mime": "text/plain", "body": text("legacy")},
        {"url": "https://a.example.org/logo.png", "mime": "image/png", "body_base64": "iVBORw0KGgo="},
    ]
    moved = {**files[0], "url": "https://a.example.org/jquery.js", "fetch_time": LATER}
    session.write("1.jsonl", jsonl(*files) + crawl("a.example.org", TOPICS))
    session.write("2.jsonl", jsonl(moved) + crawl("a.example.org", TOPICS[1:], LATER))
    for sweep, not_pages in (("1", 4), ("2", 1)):
        (summary,) = session.json("ingest", f"{sweep}.jsonl", "--sweep", sweep)
        assert (summary["not_pages"], summary["rejected"]) == (not_pages, {})
    assert [answer["url"] for answer in session.json("find", "--missing")] == ["https://a.example.org/rivers.html"]
    assert ".js" not in session.run("find", "--missing", "--redirects", "csv").out
    session.write("accept.toml", '[policy]\nmedia_types = ["text/css"]\n')
    accepting = ["--data-dir", "accepting", "ingest", "1.jsonl", "--sweep", "1", "--config", "accept.toml"]
    (summary,) = session.json(*accepting)
    assert (summary["new"], summary["not_pages"]) == (len(TOPICS) + 1, 3)
    assert "not a page 4" in session.run("--data-dir", "table", "ingest", "1.jsonl", "--sweep", "1").out
    refused = session.run("ingest", session.write("3.jsonl", jsonl(*files)), "--sweep", "3")
    assert (refused.code, len(session.json("sweep", "list"))) == (2, 2)


def test_3_the_feeds_of_scrapy_are_read(session: Session) -> None:
    items = [{"url": f"https://a.example.org/{topic}", "body": html(topic)} for topic in TOPICS]
    columns = [{"link": item["url"], "content": item["body"]} for item in items]
    table = io.StringIO()
    writer = csv.DictWriter(table, ["link", "content"])
    writer.writeheader()
    writer.writerows(columns)
    session.write("items.jl", jsonl(*items))
    session.write("items.json", json.dumps(items, indent=1))
    session.write("mapped.jsonl", jsonl(*columns))
    session.write("mapped.csv", table.getvalue())
    fields = ["--field", "url=link", "--field", "html=content"]
    for name, options in [("items.jl", []), ("items.json", []), ("mapped.jsonl", fields), ("mapped.csv", fields)]:
        (summary,) = session.json("--data-dir", f"state-{name}", "ingest", name, "--sweep", "1", *options)
        assert (summary["pages"], summary["new"], summary["rejected"]) == (len(TOPICS), len(TOPICS), {}), name


def test_4_a_folder_of_html_is_a_sweep(session: Session) -> None:
    for build, folder in (("5.0", "howto"), ("5.1", "guide")):
        session.write(f"{build}/index.html", html("start"))
        session.write(f"{build}/{folder}/index.html", html("rivers"))
        session.write(f"{build}/{folder}/bridges.html", html("bridges"))
        result = session.run("ingest", build, "--base-url", "https://docs.example.org/", "--sweep", build)
        assert result.code == 0, result
    (answer,) = session.json("find", "https://docs.example.org/howto/bridges.html")
    assert (answer["status"], answer["candidates"][0]["url"]) == (
        "moved",
        "https://docs.example.org/guide/bridges.html",
    )
    (answer,) = session.json("find", "https://docs.example.org/howto/")
    assert answer["candidates"][0]["url"] == "https://docs.example.org/guide/"


def test_5_sweeps_in_the_wrong_order_and_other_spellings_of_a_url(session: Session) -> None:
    moved = [page(f"https://a.example.org/new/{topic}.html", topic, 1, fetch_time=LATER) for topic in TOPICS]
    session.write("later.jsonl", jsonl(*moved))
    session.write("earlier.jsonl", crawl("a.example.org", TOPICS))
    assert session.json("ingest", "later.jsonl", "--sweep", "later")[0]["older_than"] is None
    older = session.run("ingest", "earlier.jsonl", "--sweep", "earlier")
    assert older.code == 0
    for expected in ("2026-01-01", "2026-02-01", "cancel sweep later and ingest it again"):
        assert expected in older.err
    assert (
        "ingest order: later, earlier; their captures are in a different order"
        in session.run("find", "--missing").out
    )
    assert session.run("sweep", "cancel", "later").code == 0
    assert session.json("ingest", "later.jsonl", "--sweep", "later")[0]["older_than"] is None
    old, new = "https://a.example.org/rivers.html", "https://a.example.org/new/rivers.html"
    assert "sweeps in ingest order: earlier, later\n" in session.run("find", old).out
    for url, command in (
        (f"{old}?utm_source=mail&fbclid=1", "captures"),
        ("http://a.example.org/rivers.html", "cluster"),
        ("http://a.example.org/rivers.html?gclid=1", "similar"),
    ):
        (answer,) = session.json("find", url)
        assert (answer["status"], answer["candidates"][0]["url"]) == ("moved", new), url
        assert answer["known_url"] == (old if "?" in url else None)
        assert session.run(command, url).code == 0, (command, url)


def test_5_a_status_line_without_a_reason_is_read(session: Session) -> None:
    http = b"HTTP/1.1 200\r\nContent-Type: text/html\r\n\r\n" + html("rivers").encode()
    head = "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example.org/\r\n"
    head += (
        f"WARC-Date: 2026-01-01T00:00:00Z\r\nContent-Type: application/http\r\nContent-Length: {len(http)}\r\n\r\n"
    )
    session.write("one.warc", head.encode() + http + b"\r\n\r\n")
    (summary,) = session.json("ingest", "one.warc", "--sweep", "1")
    assert (summary["pages"], summary["new"], summary["rejected"]) == (1, 1, {})


def test_6_error_pages_that_echo_the_url_are_suspected(session: Session) -> None:
    urls = [f"https://a.example.org/{topic}/{topic}-{n}.html" for topic in TOPICS for n in range(4)]
    session.write("1.jsonl", jsonl(*(page(url, f"subject{n}-") for n, url in enumerate(urls))))
    errors = [page(url, "not found", fetch_time=LATER) for url in urls]
    for url, error in zip(urls, errors, strict=True):
        error["html"] = error["html"].replace("</p>", f"<p>Nothing is here: {url}")
    session.write("2.jsonl", jsonl(*errors, page("https://a.example.org/", "home", fetch_time=LATER)))
    for sweep in "12":
        assert session.run("ingest", f"{sweep}.jsonl", "--sweep", sweep).code == 0
    answers = session.json("find", "--missing")
    assert {answer["url"] for answer in answers} == set(urls)
    assert all(answer["candidates"][-1]["evidence"][0]["kind"] == "suspected_soft_404" for answer in answers)


def test_7_a_mirror_on_another_domain_is_not_a_move(session: Session) -> None:
    session.write("1.jsonl", crawl("www.example.org", TOPICS))
    session.write("2.jsonl", crawl("mirror.example.net", TOPICS, LATER))
    for sweep in "12":
        assert session.run("ingest", f"{sweep}.jsonl", "--sweep", sweep).code == 0
    assert session.run("find", "--missing", "--redirects", "csv").out.splitlines()[1:] == []
    (answer,) = session.json("find", "https://www.example.org/rivers.html")
    assert answer["status"] == "alive"


def test_8_a_frozen_copy_of_a_neighbour_is_not_the_new_home(session: Session) -> None:
    def mixed_page(url: str, fetch_time: str, **sentences: int) -> dict[str, Any]:
        lines = [line for topic, count in sentences.items() for line in text(topic).splitlines()[:count]]
        return {"url": f"https://a.example.org/{url}", "fetch_time": fetch_time, "html": f"<p>{' '.join(lines)}"}

    session.write(
        "1.jsonl",
        crawl("a.example.org/x", TOPICS)
        + jsonl(
            mixed_page("x/a.html", "2026-01-01T00:00:00Z", alder=32),
            mixed_page("x/b.html", "2026-01-01T00:00:00Z", alder=24, brooks=12),
        ),
    )
    session.write(
        "2.jsonl",
        crawl("a.example.org/x", TOPICS, LATER)
        + crawl("a.example.org/v1/x", TOPICS, LATER)
        + jsonl(
            mixed_page("v1/x/b.html", LATER, alder=24, brooks=12),
            mixed_page("y/alder.html", LATER, alder=16, news=20),
        ),
    )
    for sweep in "12":
        assert session.run("ingest", f"{sweep}.jsonl", "--sweep", sweep).code == 0
    (answer,) = session.json("find", "https://a.example.org/x/a.html")
    assert answer["candidates"]
    assert all(item["confidence"] < 0.5 for item in answer["candidates"] if "/v1/" in item["url"])


def test_9_exact_and_near_copies_are_told_apart_in_one_call(session: Session) -> None:
    copies = [
        page("https://a.example.org/rivers-print.html", "rivers"),
        page("https://a.example.org/r2", "rivers", 2, fetch_time=LATER),
    ]
    session.write("1.jsonl", crawl("a.example.org", TOPICS) + jsonl(*copies))
    assert session.run("ingest", "1.jsonl", "--sweep", "1").code == 0
    (cluster,) = session.json("clusters")
    assert len(cluster["urls"]) == 3
    listed = session.run("duplicates", "--format", "csv")
    assert listed.code == 0
    assert {row["kind"] for row in rows(listed.out)} >= {"identical", "near"}
    assert len(session.run("duplicates", "--format", "jsonl").out.splitlines()) == len(rows(listed.out))


def test_10_missing_urls_are_filtered_and_mapped(session: Session) -> None:
    session.write("1.jsonl", crawl("a.example.org", TOPICS))
    moved = [page(f"https://a.example.org/new/{topic}.html", topic, 1, fetch_time=LATER) for topic in TOPICS[:4]]
    session.write("2.jsonl", jsonl(*moved))
    for sweep in "12":
        assert session.run("ingest", f"{sweep}.jsonl", "--sweep", sweep).code == 0
    assert len(session.json("find", "--missing", "--status", "moved")) == 4
    assert len(session.json("find", "--missing", "--status", "gone")) == 2
    assert len(session.json("find", "--missing", "--limit", "1")) == 1
    assert session.run("find", "--missing", "--host", "b.example.org").code == 1
    for map_format in MAP_FORMATS:
        written = session.run("find", "--missing", "--redirects", map_format)
        assert (written.code, "bridges" in written.out) == (0, True), written


def test_11_a_backup_into_the_state_is_refused(session: Session) -> None:
    session.write("1.jsonl", crawl("a.example.org", TOPICS))
    assert session.run("ingest", "1.jsonl", "--sweep", "1").code == 0
    assert session.run("state", "backup", "var/backup").code == 2
    assert not (session.folder / "var" / "backup").exists()


def test_11_a_state_on_a_read_only_disk_answers(session: Session) -> None:
    session.write("1.jsonl", crawl("a.example.org", TOPICS))
    assert session.run("ingest", "1.jsonl", "--sweep", "1").code == 0
    var = session.folder / "var"
    files = [var, *var.rglob("*")]
    for path in files:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert session.run("find", "https://a.example.org/rivers.html").code == 0
    finally:
        for path in files:
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_12_output_in_ascii(session: Session) -> None:
    session.write("1.jsonl", crawl("a.example.org", TOPICS))
    moved = [page(f"https://a.example.org/new/{topic}.html", topic, 1, fetch_time=LATER) for topic in TOPICS]
    session.write("2.jsonl", jsonl(*moved))
    for sweep in "12":
        assert session.run("ingest", f"{sweep}.jsonl", "--sweep", sweep, PYTHONIOENCODING="ascii").code == 0
    result = session.run("find", "--missing", PYTHONIOENCODING="ascii")
    assert result.code == 0
    assert "->" in result.out
    assert result.out.isascii()


def test_12_messages_name_documents_that_exist_after_the_installation(session: Session) -> None:
    result = session.run("ingest", ".", "--sweep", "1")
    assert result.code == 2
    assert "lostfound docs formats-input" in result.err
    assert session.run("docs", "formats-input").out.startswith("#")
    assert session.run("config").out.startswith("#")
