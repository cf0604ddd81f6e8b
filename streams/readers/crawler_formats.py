"""Convert the Kafka messages of other crawlers (scrapy-cluster, ACHE) to the fields of a JSONL line.

Each function raises KeyError if a message lacks a field that all of that crawler's messages have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def convert_scrapy_cluster(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message of scrapy-cluster's topic `PREFIX.crawled_firehose` (PREFIX is `demo` by default).

    Its `body` is decoded text, and its `timestamp` is in UTC.
    """
    return {
        "url": message.get("response_url") or message["url"],
        "fetch_time": message.get("timestamp"),
        "fetch_status": message.get("status_code"),
        "html": message["body"],
        "content_mime_type": _content_type(message.get("response_headers")),
        "crawl": message.get("crawlid", ""),
    }


def convert_scrapy_cluster_base64(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message whose body is in base64 (KAFKA_BASE_64_ENCODE). The message itself does not say so."""
    fields = convert_scrapy_cluster(message)
    body = fields.pop("html")
    return fields | {"body_base64": body, "content_charset": message.get("encoding")}


def convert_ache(message: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a message of ACHE's Kafka target in the format JSON (the default) or ELASTIC or, from old
    versions, CDR31.

    In the format JSON, the body is in base64. The other formats contain HTML as a string, and omit other content.
    """
    headers = message.get("response_headers") or message.get("responseHeaders")
    fields = {
        "url": message.get("redirected_url") or message["url"],
        "fetch_time": message.get("fetch_time") or message.get("retrieved") or message.get("timestamp_crawl"),
        "content_mime_type": _header_string(message.get("content_type")) or _content_type(headers),
    }
    if (body := message.get("content")) is not None:
        return fields | {"body_base64": body}
    html = next((message[name] for name in ("html", "raw_content", "response_body") if message.get(name)), None)
    return fields | {"html": html, "content_mime_type": fields["content_mime_type"] or "text/html"}


def _content_type(headers: Any) -> str | None:
    """Return the Content-Type header with its parameters, or None if there is no such header."""
    if not isinstance(headers, Mapping):
        return None
    return _header_string(next((value for name, value in headers.items() if name.lower() == "content-type"), None))


def _header_string(value: Any) -> str | None:
    """Return the value of a header, or the first value of a list. Return None if it is not a string."""
    if isinstance(value, list):
        value = value[0] if value else None
    return value if isinstance(value, str) else None


CRAWLER_FORMATS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "scrapy-cluster": convert_scrapy_cluster,
    "scrapy-cluster-base64": convert_scrapy_cluster_base64,
    "ache": convert_ache,
}
