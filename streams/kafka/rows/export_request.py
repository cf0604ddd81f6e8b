"""The request to write a part of an exported data set, which clients send to workers, and workers to each other."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from streams.export.data_set import NonNegative, Part

Step = Literal["captures", "documents"]
STEPS: tuple[Step, ...] = ("captures", "documents")


class ExportRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A step of an export: `captures` writes captures, links and hosts; `documents` writes documents and clusters."""

    step: Step
    folder: Annotated[str, Meta(pattern="^/")]
    run: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]  # see `Workspace`
    sweeps: list[NonNegative]
    previous: list[Part]  # the parts of the data set that is brought up to date
    written: list[Part] = []  # the parts that the previous step wrote
    partitions: list[NonNegative] | None = None  # None: all; the receiving worker divides them among all workers
