"""Define the answers of `find`. Their fields and the order of the fields are the JSON contract in docs/json.md."""

from __future__ import annotations

import msgspec


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One reason for or against a candidate: a stable keyword, and optionally figures and a detail."""

    kind: str
    value: float | None = None
    detail: str | None = None
    pages: int | None = None  # if links are the evidence: the number of pages with such a link
    anchor: str | None = None  # if links are the evidence: their anchor text


class Copy(msgspec.Struct, frozen=True):
    """A URL in a parallel tree, such as the tree of another version, that has nearly the candidate's document."""

    url: str
    host: str | None = None  # None: the candidate's host
    version: str | None = None  # version numbers in the path


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A possible new URL of the page; times are ISO 8601 in UTC."""

    url: str
    confidence: float
    resemblance: float | None = None  # None: the texts were not compared
    containment: float | None = None  # share of the old page's shingles that this page contains
    first_seen: str | None = None  # None: no capture of the URL is stored
    last_seen: str | None = None
    evidence: list[Evidence]
    copies: list[Copy] = []


class EditorDecision(msgspec.Struct, frozen=True):
    """What an editor decided about the URL: its new URL, or None if its page is gone."""

    new: str | None
    decided_at: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one URL. The best candidate comes first.

    `status` is `alive`, `moved`, `copy`, `gone`, `never_seen` or `unknown`.
    """

    url: str
    status: str
    last_seen: str | None
    document: str | None  # hex id of the last document of the URL
    candidates: list[Candidate]
    known_url: str | None = None  # the captured URL, if `url` differs from it only by tracking parameters
    decision: EditorDecision | None = None

    def to_json(self) -> bytes:
        """Return one line of JSON, without the newline."""
        return msgspec.json.encode(self)
