"""The documentation is true: examples are run, helps are compared, links and names lead somewhere.

A block marked `console` is a session in one folder that holds the checkout's `streams/`: lines after `$ ` are run, in
order, and what they print must be what is shown, where `...` stands for anything. A comment `# exit code N` ends a
command that does not end with 0. To write the helps anew: LOSTFOUND_WRITE_DOCS=1 pytest tests/docs
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

from state.check import Problem
from state.stats import Hot, Stats
from streams.cli.app import cli
from streams.cli.exit_codes import Exit
from streams.engine.dead_letters import Letter
from streams.engine.ingest import Summary
from streams.find.answer import Answer, Candidate, Evidence
from streams.forgetting import Forgotten
from streams.kafka.publish import Published
from streams.query import Cluster, Match, Member, UrlCapture
from streams.terminal.tables import REASONS

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT_CODE = re.compile(r"\s+# exit code (\d+)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
HELP = re.compile(r"(^```text\n\$ (lostfound[\w -]*) --help\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)
WIDTH = 100


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def sessions(path: Path) -> list[tuple[str, str]]:
    """(command, what it prints) of a page's console blocks."""
    found: list[tuple[str, str]] = []
    for kind, body in FENCE.findall(path.read_text(encoding="utf-8")):
        if kind != "console":
            continue
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            # A command may be continued over lines by a backslash.
            command = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", part)
            assert command
            found.append((command[0].strip(), part[command.end() :]))
    return found


def flat(text: str) -> str:
    """Text without what only aligns it: what stands for `...` may be wider or narrower."""
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())


def shown_as(expected: str) -> re.Pattern[str]:
    parts = (re.escape(part) for part in flat(expected).split("..."))
    return re.compile(".*".join(parts), re.DOTALL)


def commands() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command of the tree with its full name."""

    def walk(
        name: str, command: click.Command, above: click.Context | None
    ) -> Iterator[tuple[str, click.Command, click.Context]]:
        context = click.Context(command, info_name=name.rsplit(" ", 1)[-1], parent=above, **command.context_settings)
        yield name, command, context
        if isinstance(command, click.Group):
            for sub, below in sorted(command.commands.items()):
                yield from walk(f"{name} {sub}", below, context)

    yield from walk("lostfound", cli, None)


def helps() -> dict[str, str]:
    found = {}
    for name, command, context in commands():
        context.terminal_width = WIDTH
        found[name] = command.get_help(context) + "\n"
    return found


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which `lostfound` is the checkout's."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "lostfound"
    script.write_text(f"#!{sys.executable}\nfrom streams.cli import main\nmain()\n")
    script.chmod(0o755)
    hidden = ("LOSTFOUND_DATA_DIR", "LOSTFOUND_CONFIG")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {
        **kept,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": str(WIDTH),
        "NO_COLOR": "1",
    }


@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page)], ids=name_of)
def test_sessions_print_what_is_shown(page: Path, tmp_path: Path, bench: dict[str, str]) -> None:
    (tmp_path / "streams").symlink_to(ROOT / "streams")
    (tmp_path / "config").symlink_to(ROOT / "config")
    for command, expected in sessions(page):
        code = EXIT_CODE.search(command)
        done = subprocess.run(
            ["bash", "-c", EXIT_CODE.sub("", command)],
            cwd=tmp_path,
            env=bench,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == (int(code[1]) if code else 0), f"$ {command}\n{done.stdout}"
        told = f"$ {command}\n--- shown\n{expected}\n--- printed\n{done.stdout}"
        assert shown_as(expected).fullmatch(flat(done.stdout)), told


def test_every_help_is_in_the_reference() -> None:
    page = ROOT / "docs" / "cli.md"
    text = page.read_text(encoding="utf-8")
    now = helps()
    if os.environ.get("LOSTFOUND_WRITE_DOCS"):
        text = HELP.sub(lambda m: m[1] + now[m[2]] + m[4], text)
        page.write_text(text, encoding="utf-8")
    shown = {m[2]: m[3] for m in HELP.finditer(text)}
    assert shown == now


@pytest.mark.parametrize("name", [name for name, command, _ in commands() if not isinstance(command, click.Group)])
def test_every_command_is_run_by_an_example(name: str) -> None:
    run = [command for page in PAGES for command, _ in sessions(page)]
    assert any(re.match(rf"(.*\| *)?{re.escape(name)}( |$)", command) for command in run)


def test_exit_codes_are_in_the_reference() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    shown = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert shown == set(Exit)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert not [link for link in targets if not (page.parent / link).exists()]


def test_the_architecture_has_a_section_for_each_folder() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    heads = set(re.findall(r"^##+ .*`([\w/]+)/`", text, re.MULTILINE))
    packages = {name_of(path.parent) for top in ("streams", "state") for path in (ROOT / top).rglob("__init__.py")}
    assert {"streams", "state", "config", "docker", "tests", "bench", "docs", *packages} <= heads


def test_the_architecture_has_a_table_of_the_modules_of_each_folder() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    listed = set()
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE):
        if folder := re.match(r".*`([\w/]+)/`\n", section):
            listed |= {f"{folder[1]}/{name}" for name in re.findall(r"^\| `(\w+\.py)` \|", section, re.MULTILINE)}
    modules = {name_of(path) for top in ("streams", "state") for path in (ROOT / top).rglob("*.py")}
    assert listed == {name for name in modules if not name.endswith("__init__.py")}


CONTRACT = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
PROMISED = [
    Summary,
    Cluster,
    Member,
    Match,
    UrlCapture,
    Answer,
    Candidate,
    Evidence,
    Letter,
    Problem,
    Stats,
    Hot,
    Forgotten,
    Published,
]


@pytest.mark.parametrize("kind", PROMISED, ids=lambda kind: kind.__name__)
def test_every_field_of_the_json_is_in_the_contract(kind: type[msgspec.Struct]) -> None:
    missing = [
        name for name in kind.__struct_fields__ if f"`{name}`" not in CONTRACT and f'"{name}":' not in CONTRACT
    ]
    assert not missing


def test_every_kind_of_evidence_is_explained() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "streams" / "find").glob("*.py"))
    kinds = set(re.findall(r'Evidence\(\s*"(\w+)"', source)) | {"same_host", "same_domain", "other_domain"}
    assert {kind for kind in kinds if f"`{kind}`" not in CONTRACT} == set()
    assert kinds - {"same_host"} <= set(REASONS)
