"""The stored records as plain values."""

from __future__ import annotations

from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

ID_BYTES = 16
PREFIX_BYTES = 5  # length of the id prefixes in postings, which rarely collide; verification rejects collisions
TARGET_HASH_BYTES = 4  # length of the hashes of link targets; reading the links themselves excludes collisions


class Sketch(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The stored summary of a document's shingles."""

    document: bytes  # id, 16 bytes: mmh3 128 of the canonical tokens
    signature: NDArray[np.uint8]  # [bins]: 8 bits per bin (densified one-permutation hashing)
    sample: NDArray[np.uint32]  # [<= sample_max], ascending: the shingle values v with v mod 2**exponent == 0
    exponent: int  # 0: the sample contains every shingle, and comparisons are exact
    shingles: int  # distinct shingles
    tokens: int


class DocumentRow(msgspec.Struct, frozen=True, eq=False):
    """A stored document; its title and text are in the family `texts`."""

    sketch: Sketch
    first_seen: int  # time of its earliest capture, ms since the epoch, UTC


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """The stored record of one page: URL, time, sweep and response."""

    key: bytes  # URL key, in SURT order
    url: str  # as the crawler wrote it
    sweep: int
    time: int  # ms since the epoch, UTC
    status: int  # HTTP status
    document: bytes | None  # id; None for a redirect, an error without text, or a page that was rejected later
    raw_fingerprint: bytes = msgspec.field(name="raw")  # 8 bytes, or b"" if the page was not sketched
    redirect: str | None = None
    extractor: int = 0  # a value of `Extractor`
    links: bytes = b""  # 8-byte id of the list of the page's links; empty if no links of the page are stored
    # Distinguishes captures of a URL with the same time; 0 until the capture is stored.
    tiebreaker: int = msgspec.field(default=0, name="tie")


class Extractor(IntEnum):
    """How the text of a capture was extracted."""

    NONE = 0
    TEXT = 1  # supplied as text by the crawler
    HTML = 2
    HTML_FALLBACK = 3  # all text, because the main content was empty
    HTML_STRIPPED = 4  # the text between the tags, because parsing them would have taken too long or too much memory


class LinkKind(IntEnum):
    """How a page refers to a URL."""

    ANCHOR = 0  # <a> or <area>
    CANONICAL = 1  # <link rel="canonical">
    ALTERNATE = 2  # <link rel="alternate" hreflang="...">
    REFRESH = 3  # <meta http-equiv="refresh">
    SCRIPT = 4  # a script that sends the browser to this URL


class Link(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored link from a page to a URL."""

    target: bytes  # URL key
    https: bool = False
    kind: LinkKind = LinkKind.ANCHOR
    anchor: str = ""  # the words of the link; of an alternate, its language
    nofollow: bool = False
    navigation: bool = False  # whether the link is in the page's navigation instead of its main content


class SweepState(IntEnum):
    """The stored state of a sweep; `state.sweep_life` defines how it changes."""

    OPEN = 1
    COMMITTED = 2
    CANCELLING = 3
    CANCELLED = 4


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """One named pass of a crawl; `number` orders sweeps."""

    number: int
    name: str
    state: SweepState
    opened_time: int = msgspec.field(name="opened")  # ms since the epoch, UTC
    committed_time: int = msgspec.field(default=0, name="committed")  # ms since the epoch, UTC; 0 while open
    captures: int = 0
    newest_time: int = msgspec.field(default=0, name="newest")  # of its captures, ms since the epoch, UTC; 0: unknown
    expired_messages: int = 0  # only with Kafka: messages deleted unread while the sweep was open


class DecisionKind(IntEnum):
    """What an editor decided about a URL."""

    MOVED = 1
    GONE = 2
    REMOVED = 3  # an editor removed the earlier decision


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """An editor's decision about a URL. Of several decisions about a URL, the latest one applies."""

    key: bytes  # URL key of the old URL, in SURT order
    kind: DecisionKind
    time: int  # ms since the epoch, UTC
    old_url: str  # as the editor wrote it
    new_url: str | None = None  # None unless the kind is MOVED


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A verified pair.

    `containment` is the share of a's shingles in b, and `contained` the share of b's shingles in a.
    """

    a: bytes
    b: bytes
    resemblance: float
    containment: float
    contained: float
