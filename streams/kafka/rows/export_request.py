"""The request to write a part of an exported data set, which clients send to workers, and workers to each other."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from streams.export.data_set import Count, Part

Step = Literal["captures", "documents"]
STEPS: tuple[Step, ...] = ("captures", "documents")


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an export: `captures` writes captures, links and hosts, `documents` documents and clusters."""

    step: Step
    folder: Annotated[str, Meta(pattern="^/")]
    run: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]  # see `Workspace`
    sweeps: list[Count]
    previous: list[Part]  # of the data set that is brought up to date
    written: list[Part] = []  # in the step before
    partitions: list[Count] | None = None  # those of the worker; None: all, which the worker shares out
