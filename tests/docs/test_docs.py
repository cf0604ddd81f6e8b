"""Tests of the documentation: examples are run, help texts are compared, links and names are checked.

A block marked `console` is a session in a folder that contains `streams/`. Its commands, after `$ `, are run in order
and must print the output shown, where `...` matches any text. Times and rates may differ. If the exit code is not 0, a comment `# exit code N`
follows the command. To update the help texts in the docs: LOSTFOUND_WRITE_DOCS=1 pytest tests/docs
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from state.check import Problem
from state.stats import HotKey, Stats
from streams.analyses.avoid.avoid_list import Entry
from streams.analyses.avoid.check_avoid import CheckedEntry
from streams.analyses.collections.collection_results import Collection
from streams.analyses.mirrors import Mirror, MirrorChange
from streams.analyses.mirrors.levels import EVIDENCE_KINDS
from streams.analyses.replicas import Replica
from streams.cli.app import cli
from streams.cli.exit_codes import Exit
from streams.engine.dead_letters import DeadLetterLine
from streams.engine.ingest import Summary
from streams.export.run_export import ExportedTable
from streams.find.answer import Answer, Candidate, Evidence
from streams.forgetting import RemovalTotals
from streams.kafka.publish import Published
from streams.query import Cluster, Duplicate, Match, Member, Pair, StoredLink, UrlCapture
from streams.query.group import Group
from streams.terminal.tables import EVIDENCE
from tests.docs.command_server import write_client

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
HELP = re.compile(r"(^```text\n\$ (lostfound[\w -]*) --help\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)
TIME_AND_RATE = re.compile(r"in [\d.,]+ s \([\d.,]+/s\)")
WIDTH = 100


def relative_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sessions(path: Path) -> list[tuple[str, str]]:
    """Return (command, expected output) for all console blocks of a page."""
    pairs: list[tuple[str, str]] = []
    for kind, body in FENCE.findall(path.read_text(encoding="utf-8")):
        if kind != "console":
            continue
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            # A backslash continues a command on the next line.
            command = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
            assert command
            pairs.append((command[0].strip(), part[command.end() :]))
    return pairs


def normalise(text: str) -> str:
    """Remove alignment, because the text that `...` stands for can have any width."""
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())


def output_pattern(expected: str) -> re.Pattern[str]:
    any_time = TIME_AND_RATE.sub("in ... s (...)", normalise(expected))
    parts = (re.escape(part) for part in any_time.split("..."))
    return re.compile(".*".join(parts), re.DOTALL)


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield every command and subcommand with its full name."""

    def walk(
        name: str, command: click.Command, parent: click.Context | None
    ) -> Iterator[tuple[str, click.Command, click.Context]]:
        context = click.Context(command, info_name=name.rsplit(" ", 1)[-1], parent=parent, **command.context_settings)
        yield name, command, context
        if isinstance(command, click.Group):
            for subname, subcommand in sorted(command.commands.items()):
                yield from walk(f"{name} {subname}", subcommand, context)

    yield from walk("lostfound", cli, None)


def help_texts() -> dict[str, str]:
    texts = {}
    for name, command, context in commands():
        context.terminal_width = WIDTH
        texts[name] = command.get_help(context) + "\n"
    return texts


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment variables with which the command `lostfound` runs this checkout."""
    folder = tmp_path_factory.mktemp("bin")
    removed = ("LOSTFOUND_DATA_DIR", "LOSTFOUND_CONFIG")
    inherited = {name: value for name, value in os.environ.items() if name not in removed}
    variables = {
        **inherited,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": str(WIDTH),
        "NO_COLOR": "1",
    }
    with tempfile.TemporaryDirectory() as short_path:  # the addresses of sockets are limited to about 100 bytes
        address = Path(short_path) / "commands"
        write_client(folder / "lostfound", address)
        command = [sys.executable, "-m", "tests.docs.command_server", str(address)]
        with subprocess.Popen(command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL) as server:
            while not address.exists():
                assert server.poll() is None, "the server of commands has ended"
                time.sleep(0.05)
            yield variables
            server.kill()


@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page)], ids=relative_name)
def test_examples_print_what_the_page_shows(page: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "streams").symlink_to(ROOT / "streams")
    (tmp_path / "config").symlink_to(ROOT / "config")
    for command, expected in sessions(page):
        code = EXIT_CODE.search(command)
        result = subprocess.run(
            ["bash", "-c", EXIT_CODE.sub("", command)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert result.returncode == (int(code[1]) if code else 0), f"$ {command}\n{result.stdout}"
        message = f"$ {command}\n--- shown\n{expected}\n--- printed\n{result.stdout}"
        assert output_pattern(expected).fullmatch(normalise(result.stdout)), message


def test_the_reference_contains_the_help_text_of_every_command() -> None:
    page = ROOT / "docs" / "cli.md"
    text = page.read_text(encoding="utf-8")
    expected = help_texts()
    if os.environ.get("LOSTFOUND_WRITE_DOCS"):
        text = HELP.sub(lambda m: m[1] + expected[m[2]] + m[4], text)
        page.write_text(text, encoding="utf-8")
    shown = {m[2]: m[3] for m in HELP.finditer(text)}
    assert shown == expected


@pytest.mark.parametrize("name", [name for name, command, _ in commands() if not isinstance(command, click.Group)])
def test_every_command_has_an_example(name: str) -> None:
    run = [command for page in PAGES for command, _ in sessions(page)]
    assert any(re.match(rf"(.*\| *)?{re.escape(name)}( |$)", command) for command in run)


def test_the_reference_lists_all_exit_codes() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert shown == set(Exit)


@pytest.mark.parametrize("page", PAGES, ids=relative_name)
def test_links_are_not_broken(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert not [link for link in targets if not (page.parent / link).exists()]


def test_the_architecture_has_a_section_for_each_folder() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^##+ .*`([\w/]+)/`", text, re.MULTILINE))
    packages = {
        relative_name(path.parent) for top in ("streams", "state") for path in (ROOT / top).rglob("__init__.py")
    }
    assert {"streams", "state", "config", "docker", "tests", "bench", "docs", *packages} <= headings


def test_the_architecture_has_a_table_of_the_modules_of_each_folder() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = set()
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE):
        if folder := re.match(r".*`([\w/]+)/`\n", section):
            listed |= {f"{folder[1]}/{name}" for name in re.findall(r"^\| `(\w+\.py)` \|", section, re.MULTILINE)}
    modules = {relative_name(path) for top in ("streams", "state") for path in (ROOT / top).rglob("*.py")}
    assert listed == {name for name in modules if not name.endswith("__init__.py")}


def test_the_architecture_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:streams|state|config)/[\w/]+\.\w+)`", text))
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / name).exists()]


CONTRACT = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
DOCUMENTED_STRUCTS = [
    Summary,
    Cluster,
    Duplicate,
    Member,
    Pair,
    Match,
    UrlCapture,
    StoredLink,
    Answer,
    Candidate,
    Evidence,
    DeadLetterLine,
    Problem,
    Stats,
    HotKey,
    RemovalTotals,
    Replica,
    Published,
    ExportedTable,
    Mirror,
    MirrorChange,
    Collection,
    Entry,
    CheckedEntry,
    Group,
]


@pytest.mark.parametrize("kind", DOCUMENTED_STRUCTS, ids=lambda kind: kind.__name__)
def test_the_contract_explains_every_json_field(kind: type[msgspec.Struct]) -> None:
    missing = [
        name for name in kind.__struct_encode_fields__ if f"`{name}`" not in CONTRACT and f'"{name}":' not in CONTRACT
    ]
    assert not missing


def test_the_contract_explains_every_kind_of_evidence() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "streams" / "find").glob("*.py"))
    kinds = set(re.findall(r'Evidence\(\s*"(\w+)"', source)) | {"same_host", "same_domain", "other_domain"}
    assert {kind for kind in (*kinds, *EVIDENCE_KINDS) if f"`{kind}`" not in CONTRACT} == set()
    assert kinds - {"same_host", "link_substitution"} <= set(EVIDENCE)  # the table has a sentence for substitutions
