"""The `lostfound` command group, and the exit codes for errors and signals."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

import click

from streams.cli.command_context import Context
from streams.cli.commands_changes import changes
from streams.cli.commands_collections import avoid, collections, group
from streams.cli.commands_decisions import decisions_command, gone, moved
from streams.cli.commands_demo import demo
from streams.cli.commands_docs import config, docs
from streams.cli.commands_export import export
from streams.cli.commands_find import find
from streams.cli.commands_kafka import publish, topics, worker
from streams.cli.commands_links import links
from streams.cli.commands_mirrors import mirrors
from streams.cli.commands_query import captures, cluster, clusters, duplicates, similar
from streams.cli.commands_replicas import replicas
from streams.cli.commands_state import forget, state
from streams.cli.commands_sweep import ingest, sweep
from streams.cli.exit_codes import Exit, exit_code_of
from streams.cli.options import common_options
from streams.cli.output import print_error
from streams.errors import LostfoundError
from streams.terminal.escape import replace_unencodable

_COMMANDS = [
    avoid, captures, changes, cluster, clusters, collections, config, decisions_command, demo, docs, duplicates,
    export, find, forget, gone, group, ingest, links, mirrors, moved, publish, replicas, similar, state, sweep,
    topics, worker,
]  # fmt: skip
_CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}
_COMPLETION_VARIABLE = "_LOSTFOUND_COMPLETE"
_REPEAT_SECONDS = 0.05
_OBJECTS_PER_COLLECTION = 50_000  # with Python's 700, a tenth of the time of a short query is garbage collection


class _Terminated(KeyboardInterrupt):
    """Raised on SIGTERM; a KeyboardInterrupt, so that SIGTERM is handled like Ctrl-C."""


@click.group(commands=_COMMANDS, context_settings=_CONTEXT_SETTINGS)
@click.version_option(package_name="lostfound", message="%(prog)s %(version)s")
@common_options
def cli(_context: Context) -> None:
    """Cluster near-duplicate crawled pages and find where missing pages moved.

    Start with `lostfound ingest`, which reads crawl files into a sweep (one pass of a crawl). Then use `clusters` or
    `similar` to list near-duplicates, and `find` to look up where missing pages live now.
    """


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Print expected errors as a message and a hint."""
    click_context: click.Context | None = None
    try:
        with cli.make_context("lostfound", list(arguments), obj=Context.from_environment()) as click_context:
            code = cli.invoke(click_context)
        sys.stdout.flush()
    except click.exceptions.Exit as early_exit:
        return _flush_stdout(early_exit.exit_code)
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except LostfoundError as error:
        print_error(str(error), error.hint)
        return exit_code_of(error)
    except BrokenPipeError:
        _discard_stdout()
        return Exit.CLOSED_PIPE
    except OSError as error:
        if _flush_stdout(Exit.OK) == Exit.OK:  # otherwise stdout caused the error, which is already printed
            prefix = f"{error.filename}: " if error.filename else ""
            hint = "check that the file is accessible and that its disk has space"
            print_error(f"{prefix}{error.strerror or error}", hint)
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort):
        is_ingest = click_context is not None and click_context.invoked_subcommand == ingest.name
        hint = "committed batches are kept; rerun the same command to resume" if is_ingest else ""
        print_error("interrupted", hint)
        return Exit.INTERRUPTED
    return int(code or Exit.OK)


def main() -> None:
    """Run the command in `sys.argv` and exit with its code."""
    if instruction := os.environ.get(_COMPLETION_VARIABLE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "lostfound", _COMPLETION_VARIABLE, instruction))
    handle_termination()
    configure_process()
    try:
        code = run(sys.argv[1:])
    except Exception:  # noqa: BLE001 - any unexpected error is reported as a bug
        import traceback

        traceback.print_exc()
        print_error("this is a bug in lostfound", "please report it together with the traceback above")
        code = Exit.BUG
    if "duckdb" not in sys.modules:  # DuckDB reports its objects as leaked unless they are collected at exit
        gc.freeze()  # otherwise the interpreter searches all objects for cycles before it exits
    sys.exit(code)


def configure_process() -> None:
    """Tune memory management, and prepare the output streams and the environment of child processes."""
    from state.malloc_tuning import tune_malloc

    tune_malloc()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts these threads, but vectors are short
    for stream in (sys.stdout, sys.stderr):
        replace_unencodable(stream)
    # By default, Python searches the current folder for modules first. If that folder contains a crawl, a crawled
    # site may have chosen a file name that makes Python import the file.
    os.environ["PYTHONSAFEPATH"] = "1"


def handle_termination() -> None:
    """Make SIGTERM raise an exception, like Ctrl-C."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _repeat_ignored_signal


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise _Terminated


def _repeat_ignored_signal(unraisable: sys.UnraisableHookArgs) -> None:
    """Repeat a signal that arrived in a destructor, because Python ignores exceptions in destructors."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    number = signal.SIGTERM if isinstance(unraisable.exc_value, _Terminated) else signal.SIGINT
    timer = threading.Timer(_REPEAT_SECONDS, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def _flush_stdout(code: int) -> int:
    """Flush stdout and return `code`. If stdout cannot be written, return the exit code for that error instead."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard_stdout()
        if isinstance(error, BrokenPipeError):
            return Exit.CLOSED_PIPE
        print_error(f"stdout: {error.strerror}", "check that stdout is writable and that its disk has space")
        return Exit.USAGE
    return code


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, because the interpreter would flush it again at exit and repeat the error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
