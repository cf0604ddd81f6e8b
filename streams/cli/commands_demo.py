"""`lostfound demo`: ingest six editions of a real manual and show the results."""

from __future__ import annotations

import click

from streams.cli.command_context import Context, now_ms
from streams.cli.options import common_options


@click.command
@click.option("--sample", is_flag=True, help="Use the small built-in sample instead of downloading the manual.")
@common_options
def demo(context: Context, sample: bool) -> None:
    """Cluster six editions of a real manual and find moved pages.

    The editions span eleven years. Their source archives are downloaded with pip. Archives and results are stored
    under demo/ in the data folder. Without network access, a small sample of hand-written pages is used instead.
    """
    from streams.demo.run_demo import run_demo

    run_demo(context.data_dir / "demo", context.settings(), use_sample=sample, now=now_ms())
