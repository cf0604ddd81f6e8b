"""The group of all commands, and what happens when one goes wrong."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from streams.cli import (
    command_clusters,
    command_demo,
    command_find,
    command_ingest,
    command_similar,
    command_state,
    command_sweep,
    command_worker,
)
from streams.cli.exit_codes import Exit, of_error
from streams.cli.options import Place, common, tell
from streams.errors import LostfoundError

_COMPLETE = "_LOSTFOUND_COMPLETE"


class _Terminated(KeyboardInterrupt):
    """SIGTERM: ends a command as Ctrl-C does, so that both leave the same state."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="lostfound", message="%(prog)s %(version)s")
@common
@click.pass_context
def cli(context: click.Context) -> None:
    """Near-duplicates of crawled pages, kept up to date, and where moved pages went.

    Crawl sweeps go in with `lostfound ingest`; then ask: what is this a copy of, and where did this URL go?
    """
    context.ensure_object(Place)


for command in (
    command_ingest.command,
    command_sweep.command,
    command_similar.similar,
    command_clusters.cluster,
    command_clusters.clusters,
    command_similar.captures,
    command_find.command,
    command_clusters.forget,
    command_state.command,
    command_demo.command,
    command_worker.worker,
    command_worker.topics,
    command_worker.publish,
):
    cli.add_command(command)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors that are meant for people become a line and a hint."""
    context: click.Context | None = None
    try:
        with cli.make_context("lostfound", list(arguments), obj=_place_from_environment()) as context:
            code = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as asked:
        return _flushed(asked.exit_code)
    except click.ClickException as error:
        error.show()
        return Exit.USAGE
    except LostfoundError as error:
        tell(str(error), error.hint)
        return of_error(error)
    except BrokenPipeError:
        _discard_stdout()
        return Exit.CLOSED_PIPE
    except OSError as error:
        if _flushed(Exit.OK) == Exit.OK:
            named = f"{error.filename}: " if error.filename else ""
            tell(f"{named}{error.strerror or error}", "see that the files named and their disk can be used")
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort):
        resumed = context is not None and context.invoked_subcommand == command_ingest.command.name
        tell("interrupted", "what was committed stays; the same command goes on from there" if resumed else "")
        return Exit.INTERRUPTED
    return int(code or Exit.OK)


def main() -> None:
    """The `lostfound` command."""
    if instruction := os.environ.get(_COMPLETE):
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "lostfound", _COMPLETE, instruction))
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = run(sys.argv[1:])
    except Exception:  # noqa: BLE001 - the last place where one can be named a fault of ours
        import traceback

        traceback.print_exc()
        tell("this is a fault of lostfound", "please report it with the lines above")
        code = Exit.BUG
    sys.exit(code)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise _Terminated


def _place_from_environment() -> Place:
    place = Place()
    if data_dir := os.environ.get("LOSTFOUND_DATA_DIR"):
        place.data_dir = Path(data_dir)
    return place


def _flushed(code: int) -> int:
    """Write what is buffered; the code given, or that of a stdout which cannot be written to."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard_stdout()
        if isinstance(error, BrokenPipeError):
            return Exit.CLOSED_PIPE
        tell(f"stdout: {error.strerror}", "see that it can be written to and its disk has room")
        return Exit.USAGE
    return code


def _discard_stdout() -> None:
    """Let what is still buffered go nowhere: the interpreter flushes once more at its end, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
