"""The members of a cluster, each compared directly with the document that the query names.

A cluster only says that a chain of pairs connects its members (version 1 ~ 2 ~ ... ~ 100); the direct figures show
how far apart the two ends of such a chain are.
"""

from __future__ import annotations

import msgspec
import numpy as np

from state.view import View
from streams.query.clusters import Cluster
from streams.query.sightings import read_sightings
from streams.sketch import sketcher


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A document of a cluster; the figures compare it with the document that the query names."""

    document: str
    resemblance: float
    containment: float  # of the query's document in this one
    contained: float  # of this one in the query's document
    title: str
    urls: list[str]
    first_seen: int  # ms
    last_seen: int  # ms


def members(view: View, cluster: Cluster, document: bytes, urls_max: int) -> list[Member]:
    """Return the documents listed in `cluster`, those that resemble `document` most first."""
    rows = [row for listed in cluster.documents if (row := view.document(bytes.fromhex(listed)))]
    own = view.document(document)
    if own is None:
        return []
    comparisons = sketcher.compare_many(own.sketch, [row.sketch for row in rows])
    results = []
    for index in np.argsort(-comparisons.resemblance, kind="stable").tolist():
        row, comparison = rows[index], comparisons.comparison(index)
        sightings = read_sightings(view, row, urls_max)
        results.append(
            Member(
                document=row.sketch.document.hex(),
                resemblance=comparison.resemblance,
                containment=comparison.containment,
                contained=comparison.contained,
                title=view.title(row.sketch.document),
                urls=sightings.urls,
                first_seen=sightings.first_seen,
                last_seen=sightings.last_seen,
            )
        )
    return results
