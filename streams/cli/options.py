"""Options that several commands share, and the printing of errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from streams.cli.context import Context
from streams.terminal.escape import escape_text

F = TypeVar("F", bound=Callable[..., Any])


class Share(click.FloatRange):
    """A number from 0 to 1."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number. NaN is refused here because it passes every range check."""
        number = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number.", param, ctx) if math.isnan(number) else number


def _store_in_context(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None and option.name:
        setattr(context.ensure_object(Context), option.name, value)


def add_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command, in the order of its help."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# The group and every command take these, so that they may stand before or after the command's name.
common_options = add_options(
    click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        expose_value=False,
        callback=_store_in_context,
        help="Folder of the state.  [env: LOSTFOUND_DATA_DIR; default: var]",
    ),
    click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        expose_value=False,
        callback=_store_in_context,
        help="TOML file that overrides the default settings.  [env: LOSTFOUND_CONFIG]",
    ),
    click.option(
        "-v",
        "--verbose",
        "verbosity",
        count=True,
        default=None,
        expose_value=False,
        callback=_store_in_context,
        help="Log more to stderr; -vv logs everything.",
    ),
)

# For commands that work on a local folder or on the state of Kafka workers.
server_options = add_options(
    click.option(
        "--server",
        metavar="URL",
        envvar="LOSTFOUND_SERVER",
        expose_value=False,
        callback=_store_in_context,
        help="URL of any Kafka worker: use the workers' state instead of a local folder.  "
        "[env: LOSTFOUND_SERVER; token: LOSTFOUND_TOKEN]",
    ),
    common_options,
)

json_option = add_options(
    click.option("--json", "json", is_flag=True, help="Write one JSON object per line; see docs/json.md.")
)

sweep_input_options = add_options(
    click.option(
        "--sweep", "sweep_name", metavar="NAME", required=True, help="Sweep of these pages, such as 2026-11."
    ),
    click.option("--keep-open", is_flag=True, help="Leave the sweep open for more input instead of committing it."),
)


def print_error(message: str, hint: str) -> None:
    """Print to stderr what went wrong and, if there is a hint, what to do next."""
    click.secho(f"lostfound: {escape_text(message)}", fg="red" if not hint else None, err=True)
    if hint:
        click.secho(f"  {escape_text(hint)}", dim=True, err=True)
