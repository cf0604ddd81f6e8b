"""Test the rules about files: lengths, folders, the contents of the wheel, and comments of settings."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from streams.manual import MANUAL_PAGES

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for package in ("streams", "state") for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LINES_MAX = 500
FUNCTION_LINES_MAX = 60  # a screen


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tracked_files() -> list[str]:
    """Return the files that git tracks or would track; skip without git, as in an unpacked archive."""
    process = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        pytest.skip("not a git checkout: no list of tracked files")
    return [name for name in process.stdout.splitlines() if (ROOT / name).exists()]


@pytest.mark.parametrize("path", MODULES + TESTS, ids=name_of)
def test_modules_are_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_MAX


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_functions_fit_a_screen(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = {
        node.name: node.end_lineno - node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno > FUNCTION_LINES_MAX
    }
    assert not long


def test_no_two_modules_share_a_name() -> None:
    """`errors` is the exception: it means the errors of its package in both."""
    names = Counter(path.stem for path in MODULES if path.stem not in {"__init__", "errors"})
    assert not {name for name, count in names.items() if count > 1}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_have_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("folder", ["docker", "config"])
def test_folders_named_like_libraries_contain_no_python(folder: str) -> None:
    assert not list((ROOT / folder).rglob("*.py"))


def test_no_task_marks_are_left() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    sources = [
        n for n in tracked_files() if n.endswith((".py", ".sh", ".toml", ".md", ".yaml", "Makefile", "Dockerfile"))
    ]
    marked = [
        n for n in sources if n != name_of(Path(__file__)) and marks.search((ROOT / n).read_text(encoding="utf-8"))
    ]
    assert not marked


def test_tracked_files_are_small() -> None:
    large = [name for name in tracked_files() if (ROOT / name).stat().st_size > 400_000]
    assert not large


def test_every_setting_has_a_comment() -> None:
    text = (ROOT / "config" / "lostfound.toml").read_text(encoding="utf-8")
    undocumented = []
    for section, values in tomllib.loads(text).items():
        body = text.split(f"[{section}]", 1)[1].split("\n[", 1)[0]
        undocumented += [
            f"{section}.{name}" for name in values if not re.search(rf"^{name} = .*# \S", body, re.MULTILINE)
        ]
    assert not undocumented


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_contains_only_the_two_packages(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"state", "streams"}
    modules = {name_of(path) for path in MODULES}
    assert modules <= set(names)
    assert {"streams/lostfound.toml", "streams/demo/sample/2023-03.jsonl"} <= set(names)
    assert {f"streams/docs/{name}.md" for name in MANUAL_PAGES} <= set(names)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_messages_do_not_refer_to_files_of_the_checkout(path: Path) -> None:
    """These files do not exist after an install. Docstrings may name them, because their readers have the checkout."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    assert not [text for text in texts if re.search(r"\bdocs/\w[\w/-]*\.md|config/\w+\.toml|\bREADME\b", text)]


def test_the_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """Unpack the wheel away from the checkout and run it, to notice missing data files or modules."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "import streams; assert 'site' in streams.__file__, streams.__file__\n"
        "from streams.cli import main; main()"
    )
    # -I keeps the checkout off the path. The hook of the editable install adds it again, but after the wheel.
    command = [sys.executable, "-I", "-c", code, str(tmp_path / "site")]
    sample = tmp_path / "site" / "streams" / "demo" / "sample" / "2023-03.jsonl"
    process = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data"), "ingest", str(sample), "--sweep", "first"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert process.returncode == 0, process.stderr
    assert "15 pages" in process.stdout
