"""Test the rules about imports between modules, by parsing the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for package in ("streams", "state") for path in (ROOT / package).rglob("*.py"))
HEAVY = {"numba", "rocksdict", "rich", "structlog", "faust", "aiokafka", "fastwarc", "resiliparse", "tldextract"}


def imports(path: Path, *, top_only: bool = False) -> Iterator[str]:
    """Yield the full names of imported modules; with `top_only`, only imports outside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = _outside_functions(tree) if top_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            assert node.module
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _outside_functions(node)


def importers(package: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if any(name.split(".")[0] == package for name in imports(path))
    }


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_modules_are_found() -> None:
    assert len(MODULES) > 20


def test_state_never_imports_streams() -> None:
    assert not {name for name in importers("streams") if name.startswith("state/")}


def test_only_the_store_imports_rocksdb() -> None:
    assert importers("rocksdict") == {"state/store.py"}


def test_only_the_faust_engine_imports_faust() -> None:
    assert not {name for name in importers("faust") if not name.startswith("streams/kafka/")}


@pytest.mark.parametrize("path", sorted((ROOT / "streams" / "operators").glob("*.py")), ids=name_of)
def test_operators_do_no_input_or_output(path: Path) -> None:
    """An operator uses no clock, random numbers, disk or broker: it receives everything as arguments."""
    forbidden = {
        "time",
        "datetime",
        "random",
        "os",
        "pathlib",
        "socket",
        "rocksdict",
        "aiokafka",
        "faust",
        "state.store",
    }
    used = {name for name in imports(path) if name in forbidden or name.split(".")[0] in forbidden}
    assert not used


def test_importing_an_operator_loads_no_store_and_no_broker() -> None:
    """Import every operator in its own interpreter, to include indirect imports."""
    forbidden = {"rocksdict", "state.store", "faust", "aiokafka"}
    source = "import importlib, sys; importlib.import_module(sys.argv[1]); print(*sys.modules, sep='\\n')"
    names = [f"streams.operators.{path.stem}" for path in sorted((ROOT / "streams" / "operators").glob("[a-z]*.py"))]
    command = [sys.executable, "-c", source]
    running = [subprocess.Popen([*command, name], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in names]
    loaded = {
        name: set(process.communicate()[0].split()) & forbidden for name, process in zip(names, running, strict=True)
    }
    assert all(process.returncode == 0 for process in running)
    assert {name: modules for name, modules in loaded.items() if modules} == {}


@pytest.mark.parametrize("path", sorted((ROOT / "streams" / "cli").glob("*.py")), ids=name_of)
def test_commands_import_heavy_libraries_late(path: Path) -> None:
    if path.name == "log_output.py":  # the commands import it late
        return
    assert not {name.split(".")[0] for name in imports(path, top_only=True)} & HEAVY


KAFKA_LAYERS = ("wire", "rows", "worker", "collection", "coordinator")


@pytest.mark.parametrize("name", KAFKA_LAYERS)
def test_kafka_folders_import_only_lower_layers(name: str) -> None:
    allowed = {"process_exit", *KAFKA_LAYERS[: KAFKA_LAYERS.index(name) + 1]}
    for path in sorted((ROOT / "streams" / "kafka" / name).glob("*.py")):
        imported = {full.split(".")[2] for full in imports(path) if full.startswith("streams.kafka.")}
        assert imported <= allowed, f"{name_of(path)} imports a higher layer"


def test_every_kafka_folder_is_a_layer() -> None:
    folders = {path.parent.name for path in (ROOT / "streams" / "kafka").glob("*/__init__.py")}
    assert folders == set(KAFKA_LAYERS)
