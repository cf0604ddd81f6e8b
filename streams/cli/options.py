"""Options that several commands share, as decorators."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from streams.cli.command_context import Context
from streams.manual import manual_command

F = TypeVar("F", bound=Callable[..., Any])


class NumberRange(click.FloatRange):
    """A range of numbers that does not accept NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. Reject NaN, which passes every range check."""
        number = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number.", param, ctx) if math.isnan(number) else number


SHARE = NumberRange(0, 1)


def combine(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that applies all the given decorators, as if they were stacked in this order."""

    def decorate(command: Any) -> Any:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _context_option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """Return an option whose value is stored in the `Context` instead of being passed to the command."""

    def store(context: click.Context, option: click.Parameter, value: Any) -> None:
        if value is not None and option.name:
            setattr(context.ensure_object(Context), option.name, value)

    return click.option(*names, expose_value=False, callback=store, **attributes)


# The group and every command have these options, so users can write them before or after the command's name.
# `pass_obj` passes the `Context` as the first argument.
common_options = combine(
    _context_option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder in which lostfound keeps its data (the state).  [env: LOSTFOUND_DATA_DIR; default: var]",
    ),
    _context_option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="TOML file that overrides default settings.  [env: LOSTFOUND_CONFIG]",
    ),
    _context_option("-v", "--verbose", "verbosity", count=True, default=None, help="Log progress; -vv logs more."),
    click.pass_obj,
)

# For commands that can use the state of Kafka workers instead of a local folder.
server_options = combine(
    _context_option(
        "--server",
        metavar="URL",
        envvar="LOSTFOUND_SERVER",
        help="URL of any lostfound worker, to use the combined state of all workers instead of a local folder.  "
        "[env: LOSTFOUND_SERVER; the access token is read from LOSTFOUND_TOKEN]",
    ),
    common_options,
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help=f"Write one JSON object per line; see {manual_command('json')}."
)

plot_option = click.option(
    "--plot",
    "plot_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a plot to the PNG file FILE. This needs matplotlib: pip install 'lostfound[plot]'.",
)

# For commands that analyse all pages of a sweep. Pass `sweep_name` and `data_set` to `Context.analyse`.
analysis_options = combine(
    click.option(
        "--sweep",
        "sweep_name",
        metavar="NAME",
        help="Analyse the pages as of this sweep.  [default: the newest committed sweep]",
    ),
    click.option(
        "--from",
        "data_set",
        metavar="FOLDER",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Analyse the export in FOLDER instead of the state.",
    ),
    json_option,
    server_options,
)

sweep_input_options = combine(
    click.argument("paths", metavar="PATH...", nargs=-1, required=True),
    click.option(
        "--sweep",
        "sweep_name",
        metavar="NAME",
        required=True,
        help="Name of the sweep to which the pages are added, such as 2026-11.",
    ),
    click.option(
        "--field",
        "columns",
        metavar="NAME=COLUMN",
        multiple=True,
        help="Read the field NAME (such as text) from the CSV column or JSON key COLUMN; can be repeated.",
    ),
    click.option(
        "--base-url",
        metavar="URL",
        help="Treat the folder PATH as the HTML pages served under this URL; see --exclude.",
    ),
    click.option(
        "--exclude",
        metavar="GLOB",
        multiple=True,
        help="With --base-url: skip files and folders with a matching name or path, in addition to _static, "
        "_sources and 404.html; can be repeated.",
    ),
    click.option(
        "--time",
        "page_time",
        metavar="TIME",
        help="Time to use for pages that have none, in ISO 8601.  [default: with --base-url, each file's "
        "modification time; otherwise, the time at which the sweep was opened]",
    ),
    click.option("--keep-open", is_flag=True, help="Leave the sweep open for more input instead of committing it."),
)
