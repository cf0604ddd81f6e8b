"""Answers of `find`, as their JSON is promised to be (docs/json.md)."""

from __future__ import annotations

import msgspec


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reason for or against a candidate: a stable word, a figure where there is one, and detail for people."""

    kind: str
    value: float | None = None
    detail: str | None = None


class Candidate(msgspec.Struct, frozen=True):
    """A URL where the page may live now. Times are ISO 8601, UTC; None where no capture of it was kept."""

    url: str
    confidence: float
    resemblance: float | None
    containment: float | None  # of the asked page in this one
    first_seen: str | None
    last_seen: str | None
    evidence: list[Evidence]


class Answer(msgspec.Struct, frozen=True):
    """What became of one URL: `alive`, `moved`, `gone` or `unknown`; candidates best first."""

    url: str
    status: str
    last_seen: str | None
    document: str | None  # hex id of the last document that it held
    candidates: list[Candidate]

    def to_json(self) -> bytes:
        """One line of JSON, without the newline."""
        return msgspec.json.encode(self)
