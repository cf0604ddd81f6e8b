"""Pages as messages: JSON with the names of Common Crawl's columns, or the same as msgpack; from others by presets.

    headers   schema        lostfound.pages/1, or nothing
              content-type  application/json (the default) or application/msgpack
              format        nothing, scrapy-cluster or ache

The JSON is a line of JSONL as `docs/formats-input.md` has it. Msgpack has the fields of `PageMessage`, with the body
as bytes; `lostfound publish` sends that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from streams.errors import BadUrl
from streams.faust_engine.messages import Headers
from streams.readers import ReadLimits
from streams.readers.jsonl import page_of
from streams.urls import url_key
from streams.values import Origin, Page, Rejected

SCHEMA = "lostfound.pages/1"
MSGPACK = "application/msgpack"
JSON = "application/json"


class PageMessage(msgspec.Struct, omit_defaults=True):
    """A page as `lostfound publish` sends it."""

    url: str
    time: int  # ms since the epoch, UTC
    crawl: str = ""
    status: int = 200
    body: bytes | None = None
    text: str | None = None
    mime: str = ""
    charset: str = ""
    redirect: str | None = None
    revisit_of: str | None = None
    revisit_time: int | None = None
    digest: str = ""
    title: str = ""
    source: str = ""
    member: str = ""
    offset: int = 0


_decode_packed = msgspec.msgpack.Decoder(PageMessage).decode
_encode_packed = msgspec.msgpack.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def encode(page: Page, crawl: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The value and the headers of a page's message."""
    fields = {name: getattr(page, name) for name in Page.__struct_fields__ if name != "origin"}
    origin = page.origin
    message = PageMessage(**fields, crawl=crawl, source=origin.source, member=origin.member, offset=origin.offset)
    return _encode_packed(message), [("schema", SCHEMA.encode()), ("content-type", MSGPACK.encode())]


def decode(value: bytes | None, headers: Headers, origin: Origin, limits: ReadLimits) -> tuple[Page | Rejected, str]:
    """The page of a message, or why it is refused, and the name of its sweep, empty where it names none."""
    given = {name: held.decode("utf-8", "replace") for name, held in headers}
    kind, preset = given.get("content-type", JSON), given.get("format", "")
    problem = ""
    if given.get("schema", SCHEMA) != SCHEMA:
        problem = f"the message has schema {given['schema']!r}, pages have {SCHEMA}"
    elif kind not in (JSON, MSGPACK):
        problem = f"content type {kind!r} is neither {JSON} nor {MSGPACK}"
    elif preset not in PRESETS:
        problem = f"format {preset!r} is none of {', '.join(filter(None, PRESETS))}"
    if problem:
        return Rejected("bad_schema", problem, origin), ""
    data = value or b""
    try:
        if kind == MSGPACK:
            return _packed(data, limits)
        if preset:
            data = msgspec.json.encode(PRESETS[preset](_decode_object(data)))
        return page_of(data, limits, origin)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, RecursionError) as error:
        return Rejected("bad_message", repr(error)[:300], origin), ""


def _packed(value: bytes, limits: ReadLimits) -> tuple[Page | Rejected, str]:
    held = _decode_packed(value)
    origin = Origin(held.source, held.offset, held.member)
    try:
        url_key(held.url, limits.url_bytes_max)
    except BadUrl as error:
        return Rejected("bad_url", str(error), origin, held.url[: limits.url_bytes_max]), held.crawl
    if len(held.body or held.text or "") > limits.page_bytes_max:
        return Rejected("too_big", f"more than page_bytes_max {limits.page_bytes_max}", origin, held.url), held.crawl
    fields = {name: getattr(held, name) for name in Page.__struct_fields__ if name != "origin"}
    return Page(**fields, origin=origin), held.crawl


def _scrapy_cluster(held: Mapping[str, Any]) -> dict[str, Any]:
    """A result of scrapy-cluster's `demo.crawled_firehose`."""
    return {
        "url": held.get("response_url") or held["url"],
        "fetch_time": held.get("timestamp"),
        "fetch_status": held.get("status_code"),
        "html": held["body"],
        "crawl": held.get("crawlid", ""),
    }


def _ache(held: Mapping[str, Any]) -> dict[str, Any]:
    """A page of ACHE's Kafka target, in its `CDR31` or `ELASTIC` form."""
    return {
        "url": held["url"],
        "fetch_time": held.get("timestamp_crawl") or held.get("retrieved"),
        "html": held.get("raw_content") or held.get("html") or held["text"],
        "content_mime_type": (held.get("content_type") or "text/html").partition(";")[0],
    }


PRESETS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "": dict,
    "scrapy-cluster": _scrapy_cluster,
    "ache": _ache,
}
