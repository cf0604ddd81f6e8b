"""Help, exit codes, error messages, closed pipes and interrupts."""

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

from state.errors import StateCorrupt, StateError, StateIncompatible, StateLocked, StateMissing
from streams.cli import app
from streams.cli.command_context import Context
from streams.cli.exit_codes import Exit, exit_code_of
from streams.errors import BadRecord, BadUrl, InputError, LostfoundError, SettingsError
from tests.streams.cli.conftest import COMMAND, ROOT, Lostfound


def run_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, cwd=ROOT, **options)


@pytest.fixture
def boom_exceptions(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """A list whose first item is raised by the command `boom`."""
    exceptions: list[BaseException] = []

    @click.command()
    def boom() -> None:
        raise exceptions[0]

    monkeypatch.setitem(app.cli.commands, "boom", boom)
    return exceptions


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    help_text = capsys.readouterr().out
    assert all(f"\n  {name} " in help_text for name in app.cli.commands)


def test_command_summaries_fit_80_columns_uncut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (["--help"], ["state", "--help"], ["sweep", "--help"], ["topics", "--help"]):
        assert app.run(arguments) == 0
        summaries = capsys.readouterr().out.split("Commands:\n")[1].splitlines()
        cut_or_wrapped = [line for line in summaries if line.endswith("...") or not re.match(r"  \w", line)]
        assert cut_or_wrapped == []


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert re.fullmatch(r"lostfound \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["fnid"]) == Exit.USAGE
    assert "No such command 'fnid'" in capsys.readouterr().err


def test_help_imports_no_heavy_library() -> None:
    """Test the imports instead of the start-up time, which depends on the machine."""
    heavy = {"numpy", "numba", "rocksdict", "rich", "structlog", "fastwarc", "resiliparse", "tldextract", "faust"}
    code = "import sys; from streams.cli.app import run; run(['--help']); print(sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(re.findall(r"'(\w+)'", result.stdout))
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
        (StateIncompatible("a"), 4),
        (StateCorrupt("a"), 4),
        (StateError("a"), 4),
        (LostfoundError("a"), 2),
    ],
)
def test_each_error_has_an_exit_code(error: LostfoundError, code: int) -> None:
    assert exit_code_of(error) == code


def test_an_error_is_printed_as_a_message_and_a_hint(
    boom_exceptions: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    boom_exceptions.append(StateMissing("no state in var", "ingest something first"))
    assert app.run(["boom"]) == Exit.STATE
    assert capsys.readouterr() == ("", "lostfound: no state in var\n  ingest something first\n")


def test_only_an_interrupted_ingest_hints_at_resuming(
    boom_exceptions: list[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boom_exceptions.append(KeyboardInterrupt())
    assert app.run(["boom"]) == Exit.INTERRUPTED
    assert capsys.readouterr().err == "lostfound: interrupted\n", "a query cannot be resumed"
    monkeypatch.setitem(app.cli.commands, "ingest", app.cli.commands["boom"])
    assert app.run(["ingest"]) == Exit.INTERRUPTED
    assert "rerun the same command to resume" in capsys.readouterr().err


def test_an_interrupt_during_the_imports_prints_no_traceback() -> None:
    code = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from streams.cli import main; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (result.returncode, result.stderr) == (Exit.INTERRUPTED, "")


def test_a_bug_prints_its_traceback() -> None:
    code = (
        "import click; from streams.cli import app\n"
        "@click.command()\n"
        "def boom(): 1 / 0\n"
        "app.cli.add_command(boom)\n"
        "import sys; sys.argv = ['lostfound', 'boom']; app.main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == Exit.BUG
    assert "ZeroDivisionError" in result.stderr
    assert "a bug in lostfound" in result.stderr


def test_sigterm_ends_a_command_like_an_interrupt() -> None:
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


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_during_a_destructor_is_not_lost(name: str) -> None:
    code = (
        "import os, signal, sys, time, click\n"
        "from streams.cli import app\n"
        "class Dying:\n"
        "    def __del__(self):\n"
        f"        os.kill(os.getpid(), signal.{name})\n"
        "        time.sleep(0.01)\n"
        "@click.command()\n"
        "def die():\n"
        "    Dying()\n"
        "    time.sleep(20)\n"
        "app.cli.add_command(die)\n"
        "sys.argv = ['lostfound', 'die']; app.main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert result.returncode == Exit.INTERRUPTED
    assert "Traceback" not in result.stderr


def test_a_closed_stdout_prints_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        result = subprocess.run(
            [*COMMAND, "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=ROOT,
        )
    assert result.returncode == Exit.CLOSED_PIPE
    assert result.stderr == ""


def test_shell_completion_works() -> None:
    result = run_process(env={**os.environ, "_LOSTFOUND_COMPLETE": "bash_source"})
    assert result.returncode == 0
    assert "complete -o nosort -F" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "from-environment"),
        (["--data-dir", "before", "where"], "before"),
        (["where", "--data-dir", "after"], "after"),
        (["--data-dir", "before", "where", "--data-dir", "after"], "after"),
    ],
)
def test_common_options_can_stand_before_or_after_the_command(
    arguments: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from streams.cli.options import common_options

    @click.command()
    @common_options
    def where(context: Context) -> None:
        click.echo(context.data_dir)

    monkeypatch.setitem(app.cli.commands, "where", where)
    monkeypatch.setenv("LOSTFOUND_DATA_DIR", "from-environment")
    assert app.run(arguments or ["where"]) == 0
    assert capsys.readouterr().out.strip() == expected


@pytest.mark.parametrize(
    ("closed", "arguments"),
    [(">&-", "state stats"), ("2>&-", "state stats"), ("<&-", "similar -"), ("<&-", "find --from-file -"),
     ("<&-", "ingest - --sweep x"), (">&- 2>&- <&-", "sweep open y")],
)  # fmt: skip
def test_commands_work_with_closed_standard_streams(
    lostfound: Lostfound, sample_state: Path, closed: str, arguments: str
) -> None:
    line = [
        "bash",
        "-c",
        f'exec "$@" {closed}',
        "-",
        *COMMAND,
        *arguments.split(),
        "--data-dir",
        str(sample_state),
    ]
    result = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode in {0, 1, 2}
    assert "Traceback" not in result.stdout + result.stderr
    assert lostfound("state", "check").code == 0


def test_a_full_disk_is_reported_if_stdout_is_a_file() -> None:
    for arguments in (["--help"], ["sweep", "--help"]):
        with Path("/dev/full").open("w") as full:
            result = subprocess.run(
                [*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, check=False
            )
        assert result.returncode == 2
        assert result.stderr.startswith("lostfound: ")
        assert "No space left on device" in result.stderr


def test_child_processes_do_not_import_from_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    app.configure_process()
    assert os.environ["PYTHONSAFEPATH"] == "1"
