"""The --threshold, --containment and --sweep options of `lostfound cluster` and `clusters`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click

from streams.cli.options import Share, add_options
from streams.errors import InputError

if TYPE_CHECKING:
    from state.view import View
    from streams.settings import Settings

policy_options = add_options(
    click.option("--threshold", type=Share(), help="Minimum resemblance, at least the threshold used at ingest."),
    click.option(
        "--containment",
        is_flag=True,
        help="Also join pairs where one document contains at least --threshold of the other.",
    ),
    click.option("--sweep", "sweep_name", metavar="NAME", help="Use only documents captured in this sweep."),
)


class Policy(TypedDict):
    """Which stored edges join documents into clusters."""

    threshold: float
    containment: bool
    sweep: int | None


def parse_policy(
    view: View, settings: Settings, threshold: float | None, containment: bool, sweep_name: str | None
) -> Policy | None:
    """Return the policy that the options ask for; None if they are all left out, for the clusters made at ingest.

    Raises InputError for an unknown sweep and for a threshold below the one used at ingest: edges below it were never
    stored.
    """
    if threshold is None and not containment and sweep_name is None:
        return None
    ingest_threshold = view.threshold() or settings.policy.threshold
    if containment and (threshold is None or threshold == ingest_threshold):
        click.echo(
            f"--containment has no effect at threshold {ingest_threshold}: every stored edge counts there", err=True
        )
    if threshold is not None and threshold < ingest_threshold:
        raise InputError(
            f"--threshold {threshold} is below {ingest_threshold}, the threshold used at ingest",
            "use a higher --threshold, or ingest again into a new folder with a lower policy.threshold",
        )
    numbers = {sweep.name: sweep.number for sweep in view.sweeps()}
    if sweep_name is not None and sweep_name not in numbers:
        raise InputError(f"sweep {sweep_name!r} does not exist", "list all sweeps with `lostfound sweep list`")
    return Policy(
        threshold=threshold if threshold is not None else ingest_threshold,
        containment=containment,
        sweep=numbers[sweep_name] if sweep_name is not None else None,
    )
