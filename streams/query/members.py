"""The members of a cluster, each with its own likeness to the document that was asked for.

A cluster only says that a chain of pairs leads from one member to the other (version 1 ~ 2 ~ ... ~ 100); the direct
figures say how far apart its ends are.
"""

from __future__ import annotations

import msgspec
import numpy as np

from state.view import View
from streams.query import queries
from streams.query.queries import Cluster
from streams.sketch import sketcher


class Member(msgspec.Struct, frozen=True):
    """A document of a cluster; the figures are between it and the document asked for."""

    document: str
    resemblance: float
    containment: float  # of the asked document in this one
    contained: float  # of this one in the asked document
    title: str
    urls: list[str]
    first_seen: int  # ms
    last_seen: int  # ms


def members(view: View, cluster: Cluster, asked: bytes, urls_max: int) -> list[Member]:
    """The documents that `cluster` names, most like the asked one first."""
    rows = [row for document in cluster.documents if (row := view.document(bytes.fromhex(document)))]
    own = view.document(asked)
    if own is None:
        return []
    alike = sketcher.compare_many(own.sketch, [row.sketch for row in rows])
    held = []
    for at in np.argsort(-alike.resemblance, kind="stable").tolist():
        document = rows[at].sketch.document
        urls, first, last = queries.seen(view, rows[at], urls_max)
        figures = alike.comparison(at)
        held.append(
            Member(
                document.hex(),
                figures.resemblance,
                figures.containment,
                figures.contained,
                view.title(document),
                urls,
                first,
                last,
            )
        )
    return held
