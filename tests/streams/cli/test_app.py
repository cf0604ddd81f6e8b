"""The frame: help, exit codes, errors for people, closed pipes and interrupts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from state.errors import StateCorrupt, StateError, StateLocked, StateMissing, StateRefused
from streams.cli import app
from streams.cli.exit_codes import Exit, of_error
from streams.cli.options import Place
from streams.errors import BadRecord, BadUrl, InputError, LostfoundError, SettingsError

ROOT = Path(__file__).parents[3]


def lostfound(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from streams.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, **more)


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """A command `boom` that raises what is put in the list."""
    raised: list[BaseException] = []

    @click.command()
    def boom() -> None:
        raise raised[0]

    monkeypatch.setitem(app.cli.commands, "boom", boom)
    return raised


def test_help_names_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in app.cli.commands)


def test_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert re.fullmatch(r"lostfound \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_an_unknown_command_is_a_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["fnid"]) == Exit.USAGE
    assert "No such command 'fnid'" in capsys.readouterr().err


def test_starting_imports_nothing_heavy() -> None:
    """Start-up by what is imported, since seconds differ from machine to machine."""
    heavy = {"numpy", "numba", "rocksdict", "rich", "structlog", "fastwarc", "resiliparse", "tldextract", "faust"}
    code = "import sys; from streams.cli.app import run; run(['--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(re.findall(r"'(\w+)'", done.stdout))
    assert "click" in loaded
    assert not loaded & heavy


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadRecord("a"), 3),
        (BadUrl("a"), 2),
        (InputError("a"), 2),
        (SettingsError("a"), 2),
        (StateMissing("a"), 4),
        (StateLocked("a"), 4),
        (StateRefused("a"), 4),
        (StateCorrupt("a"), 4),
        (StateError("a"), 4),
        (LostfoundError("a"), 2),
    ],
)
def test_errors_have_exit_codes(error: LostfoundError, code: int) -> None:
    assert of_error(error) == code


def test_an_error_is_a_line_and_a_hint(raising: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    raising.append(StateMissing("no state in var", "ingest something first"))
    assert app.run(["boom"]) == Exit.STATE
    assert capsys.readouterr() == ("", "lostfound: no state in var\n  ingest something first\n")


def test_an_interrupted_ingest_says_that_the_work_stays(
    raising: list[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising.append(KeyboardInterrupt())
    assert app.run(["boom"]) == Exit.INTERRUPTED
    assert capsys.readouterr().err == "lostfound: interrupted\n", "a question has nothing to go on from"
    monkeypatch.setitem(app.cli.commands, "ingest", app.cli.commands["boom"])
    assert app.run(["ingest"]) == Exit.INTERRUPTED
    assert "goes on from there" in capsys.readouterr().err


def test_an_interrupt_while_the_command_is_loaded_is_no_traceback() -> None:
    code = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from streams.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (Exit.INTERRUPTED, "")


def test_a_fault_of_ours_shows_its_traceback() -> None:
    code = (
        "import click; from streams.cli import app\n"
        "@click.command()\n"
        "def boom(): 1 / 0\n"
        "app.cli.add_command(boom)\n"
        "import sys; sys.argv = ['lostfound', 'boom']; app.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == Exit.BUG
    assert "ZeroDivisionError" in done.stderr
    assert "a fault of lostfound" in done.stderr


def test_sigterm_ends_a_command_as_an_interrupt() -> None:
    code = (
        "import click, time; from streams.cli import app\n"
        "@click.command()\n"
        "def wait(): print('ready', flush=True); time.sleep(60)\n"
        "app.cli.add_command(wait)\n"
        "import sys; sys.argv = ['lostfound', 'wait']; app.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == Exit.INTERRUPTED
    assert "Traceback" not in err


def test_a_closed_stdout_is_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-c", "from streams.cli import main; main()", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert done.returncode == Exit.CLOSED_PIPE
    assert done.stderr == ""


def test_completion_is_offered() -> None:
    done = lostfound(env={**os.environ, "_LOSTFOUND_COMPLETE": "bash_source"})
    assert done.returncode == 0
    assert "complete -o nosort -F" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "from-environment"),
        (["--data-dir", "before", "where"], "before"),
        (["where", "--data-dir", "after"], "after"),
        (["--data-dir", "before", "where", "--data-dir", "after"], "after"),
    ],
)
def test_options_may_stand_before_or_after_the_command(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from streams.cli.options import common

    @click.command()
    @common
    @click.pass_obj
    def where(place: Place) -> None:
        click.echo(place.data_dir)

    monkeypatch.setitem(app.cli.commands, "where", where)
    monkeypatch.setenv("LOSTFOUND_DATA_DIR", "from-environment")
    assert app.run(arguments or ["where"]) == 0
    assert capsys.readouterr().out.strip() == expected
