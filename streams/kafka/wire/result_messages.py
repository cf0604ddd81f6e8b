"""The messages of the result topics. Each message is a JSON object; docs/schemas/ describes its fields.

topic            key        written by                      when
near-duplicates  URL        verify, admit                   a page resembles a stored page
clusters         document   join, retractions               a document joins a cluster, leaves it, or is forgotten
moves            URL        the owner of partition 0        a sweep is committed
analyses         see below  the owner of partition 0        a sweep is committed

The key of an analysis result consists of the analysis, the number of the result and the sweep.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from streams.find.answer import Candidate
from streams.kafka.wire.packed_messages import Topic


class ClosestDocument(msgspec.Struct, frozen=True):
    """The stored document most similar to a page."""

    url: str
    document: str
    first_seen: str | None


class NearDuplicate(msgspec.Struct, frozen=True, kw_only=True):
    """A page that resembles an earlier page, with the figures and standard errors that `similar` reports."""

    url: str
    document: str
    first_seen: str | None
    cluster: str
    closest: ClosestDocument
    resemblance: float
    resemblance_error: float
    containment: float
    containment_error: float
    contained: float  # the containment of the earlier page in this page
    contained_error: float
    exact: bool


class ClusterChange(msgspec.Struct, frozen=True):
    """A document that joins a cluster, leaves its cluster, or is forgotten."""

    change: Literal["joined", "left", "forgotten"]
    document: str
    # A document with a smaller id in the cluster that the document joins.
    parent: str | None = msgspec.field(default=None, name="into")
    # The number of documents that change clusters together; None if unknown.
    moved_documents: int | None = msgspec.field(default=None, name="documents")


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `find` about a URL that has been missing since `sweep`."""

    sweep: str
    url: str
    status: str
    last_seen: str | None
    document: str | None
    candidates: list[Candidate]


class AnalysisResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of an analysis of a committed sweep."""

    sweep: str
    analysis: str  # the command that prints such results
    method: str
    number: int  # from 0, in the order of the command's output
    results: int  # how many results the analysis has
    result: msgspec.Raw  # the JSON object that the command prints


class Result(msgspec.Struct, frozen=True):
    """A message for a result topic."""

    topic: Topic
    partition: int
    key: bytes
    value: NearDuplicate | ClusterChange | Move | AnalysisResult
