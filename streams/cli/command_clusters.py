"""`lostfound cluster` and `clusters`: what belongs together, by the policy of the ingest or another; and `forget`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, TypedDict

import click

from streams.cli.exit_codes import Exit
from streams.cli.json_output import as_row, write_json
from streams.cli.options import F, Place, Share, as_json, served
from streams.errors import InputError, NotFound
from streams.terminal.escape import counted, plain

if TYPE_CHECKING:
    from state.view import View
    from streams.settings import Settings

LISTED_MAX = 1_000  # clusters of a table; more are for machines


def _policy(command: F) -> F:
    """Options that ask for clusters by another policy than the ingest's, from the edges that are kept."""
    for option in (
        click.option("--sweep", "name", metavar="NAME", help="Only documents that this sweep captured."),
        click.option(
            "--containment",
            is_flag=True,
            help="With a higher --threshold: pairs of the ingest of which one holds the other to it count too.",
        ),
        click.option("--threshold", type=Share(), help="A stricter resemblance than the one at ingest."),
    ):
        command = option(command)
    return command


@click.command("cluster")
@click.argument("named", metavar="URL|DOC")
@_policy
@as_json
@served
@click.pass_obj
def cluster(
    place: Place, named: str, threshold: float | None, containment: bool, name: str | None, json: bool
) -> None:
    """Show the cluster of a URL's present document, or of a document named by its id."""
    from streams import query
    from streams.terminal import tables

    with place.reader() as (view, settings):
        document = query.resolve(view, named)
        most = settings.limits.members_shown_max
        if threshold is None and not containment and name is None:
            found = query.cluster(view, document, most)
        else:
            policy = _policy_asked(view, settings, threshold, containment, name)
            held_by = query.cluster_by_policy(view, document, **policy, limit=most)
            if held_by is None:
                raise NotFound(
                    f"that sweep did not capture document {document.hex()}", "leave --sweep out to ask all sweeps"
                )
            found = held_by
        held = query.members(view, found, document, most)
    if json:
        write_json({**as_row(found), "asked": document.hex(), "members": [as_row(each) for each in held]})
    else:
        tables.out(tables.cluster(found, held))


@click.command("clusters")
@click.option("--min-size", type=click.IntRange(1), default=2, show_default=True, help="Documents or URLs a cluster.")
@click.option("--limit", type=click.IntRange(1), help="Only so many clusters, the biggest.")
@_policy
@as_json
@served
@click.pass_obj
def clusters(
    place: Place,
    min_size: int,
    limit: int | None,
    threshold: float | None,
    containment: bool,
    name: str | None,
    json: bool,
) -> Exit | None:
    """List all clusters, biggest first. With --json every document and URL of each."""
    from streams import query
    from streams.terminal import tables

    shown, more = 0, False
    with place.reader() as (view, settings):
        if threshold is None and not containment and name is None:
            found = query.clusters(view, min_size=min_size)
        else:
            policy = _policy_asked(view, settings, threshold, containment, name)
            found = query.clusters_by_policy(view, **policy, min_size=min_size)
        if json:
            for shown, each in enumerate(islice(found, limit), start=1):  # noqa: B007 - counted
                write_json(each)
        else:
            listed = list(islice(found, limit or LISTED_MAX + 1))
            more = limit is None and len(listed) > LISTED_MAX
            del listed[limit or LISTED_MAX :]
            shown = len(listed)
            if listed:
                tables.out(tables.clusters(listed, lambda document: view.title(bytes.fromhex(document))))
    if not shown:
        click.echo(f"no cluster has {min_size} documents or URLs", err=True)
        return Exit.NOTHING
    if more:
        click.echo(f"the biggest {shown:,} are shown; --limit shows more, --json all", err=True)
    return None


@click.command("forget")
@click.argument("named", metavar="URL|DOC")
@as_json
@served
@click.pass_obj
def forget(place: Place, named: str, json: bool) -> Exit | None:
    """Remove a URL with its captures, or a document with all of its; rebuild only their clusters.

    It cannot be undone, but by ingesting the pages again as another sweep.
    """
    from state.view import View
    from streams import forgetting, query
    from streams.urls import url_key

    with place.forgetter() as (store, commit):
        if "://" in named:
            removals = forgetting.forget_url(store, url_key(named))
        else:
            removals = forgetting.forget_document(store, query.resolve(View(store), named))
        done = forgetting.apply(removals, commit)
    if json:
        write_json(done)
    elif done.captures or done.documents:
        click.echo(
            f"forgot {counted(done.captures, 'capture')} and {counted(done.documents, 'document')}; "
            f"{counted(done.rejoined, 'other')} {'was' if done.rejoined == 1 else 'were'} joined anew"
        )
    if done.captures or done.documents:
        return None
    click.echo(f"nothing is kept of {plain(named)}", err=True)
    return Exit.NOTHING


class _Policy(TypedDict):
    """What `query` is asked for by the options of `_policy`."""

    threshold: float
    containment: bool
    sweep: int | None


def _policy_asked(
    view: View, settings: Settings, threshold: float | None, containment: bool, name: str | None
) -> _Policy:
    """The policy that the options ask for; raises InputError where the kept edges cannot tell."""
    least = view.threshold() or settings.policy.threshold
    if containment and (threshold is None or threshold == least):
        click.echo(f"--containment adds nothing to a threshold of {least}: all pairs that are kept count", err=True)
    if threshold is not None and threshold < least:
        raise InputError(
            f"--threshold {threshold} is below the {least} of the ingest: no edges were kept down there",
            "ask for a higher one, or ingest again with a lower policy.threshold",
        )
    numbers = {sweep.name: sweep.number for sweep in view.sweeps()}
    if name is not None and name not in numbers:
        raise InputError(f"there is no sweep {name!r}", "`lostfound sweep list` shows all")
    return _Policy(
        threshold=threshold if threshold is not None else least,
        containment=containment,
        sweep=numbers[name] if name is not None else None,
    )
