"""The members of a cluster, each compared directly with the document that the query names.

A chain of pairs connects the members of a cluster (version 1 ~ 2 ~ ... ~ 100). The direct figures show how far apart
the two ends of such a chain are.
"""

from __future__ import annotations

import msgspec
import numpy as np

from state.view import View
from streams.query.clusters import Cluster
from streams.query.sightings import read_sightings
from streams.sketch import sketcher


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A document of a cluster, compared with the document that the query names."""

    document: str
    resemblance: float
    containment: float  # of the query's document in this one
    contained: float  # of this one in the query's document
    title: str
    urls: list[str]
    first_seen: int  # ms
    last_seen: int  # ms


def members(view: View, cluster: Cluster, document: bytes, urls_max: int) -> list[Member]:
    """Return the documents listed in `cluster`, the highest resemblance to `document` first."""
    rows = [row for listed in cluster.documents if (row := view.document(bytes.fromhex(listed)))]
    query = view.document(document)
    if query is None:
        return []
    comparisons = sketcher.compare_many(query.sketch, [row.sketch for row in rows])
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
                **sightings._asdict(),
            )
        )
    return results
