"""Read WAT, the metadata of crawled pages that Common Crawl publishes: WARC records of type `metadata` with JSON.

    {"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": {
        "Response-Message": {"Status": "200"}, "Headers": {"Content-Type": "text/html"},
        "HTML-Metadata": {
            "Head": {"Title": "...", "Base": "...", "Link": [{"url": "...", "rel": "canonical"}]},
            "Links": [{"path": "A@/href", "url": "../x", "text": "..."}]}}}}}

The pages of a WAT file have links and a title, but neither a text nor a body.
"""

from __future__ import annotations

from urllib.parse import urljoin

import msgspec

from state.model import LinkKind
from streams.page import Origin, Page, Rejected, SuppliedLink
from streams.readers import http_payload
from streams.readers.read_limits import ReadLimits, too_big_detail

_ANCHOR_PATHS = frozenset({"A@/href", "AREA@/href"})


class _Link(msgspec.Struct):
    path: str = ""
    url: str = ""
    text: str = ""
    alt: str = ""
    title: str = ""
    rel: str = ""
    hreflang: str = ""


class _Head(msgspec.Struct, rename="pascal"):
    title: str = ""
    base: str = ""
    link: list[_Link] = []


class _Html(msgspec.Struct, rename="pascal"):
    head: _Head = msgspec.field(default_factory=_Head)
    links: list[_Link] = []


class _Message(msgspec.Struct, rename="pascal"):
    status: str | int = ""


class _Response(msgspec.Struct):
    message: _Message = msgspec.field(default_factory=_Message, name="Response-Message")
    headers: dict[str, str | list[str]] = msgspec.field(default_factory=dict, name="Headers")
    html: _Html = msgspec.field(default_factory=_Html, name="HTML-Metadata")


class _Payload(msgspec.Struct):
    response: _Response | None = msgspec.field(default=None, name="HTTP-Response-Metadata")


class _Envelope(msgspec.Struct):
    payload: _Payload = msgspec.field(default_factory=_Payload, name="Payload-Metadata")


class _Metadata(msgspec.Struct):
    envelope: _Envelope = msgspec.field(default_factory=_Envelope, name="Envelope")


_decode = msgspec.json.Decoder(_Metadata).decode


def read_page(
    data: bytes, size: int, url: str, key: bytes, time: int, limits: ReadLimits, origin: Origin
) -> Page | Rejected | None:
    """Return the page that a record describes, or None if it describes something else, such as a request.

    `size` is the size of the whole record, of which `data` may contain only the beginning.
    """
    if size > len(data):
        return Rejected("too_big", too_big_detail(size, limits), origin, url)
    try:
        response = _decode(data).envelope.payload.response
    except msgspec.ValidationError as error:
        return Rejected("bad_field" if data.lstrip().startswith(b"{") else "bad_json", str(error)[:300], origin, url)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        return Rejected("bad_json", str(error)[:300], origin, url)
    if response is None:
        return None
    status = str(response.message.status or 200)
    if not (status.isascii() and status.isdigit() and len(status) == 3):
        return Rejected("bad_field", f"{status[:40]!r} is not an HTTP status", origin, url)
    headers = {
        name.lower(): value if isinstance(value, str) else "".join(value[:1])
        for name, value in response.headers.items()
    }
    mime, charset = http_payload.parse_content_type(headers.get("content-type", ""))
    location = headers.get("location") if status.startswith("3") else None
    return Page(
        url=url,
        key=key,
        time=time,
        status=int(status),
        mime=mime,
        charset=charset,
        redirect=http_payload.resolve_redirect(url, location, limits) if location else None,
        title=response.html.head.title,
        links=_links(response.html, url),
        origin=origin,
    )


def _links(page: _Html, url: str) -> list[SuppliedLink] | None:
    base = _join(url, page.head.base.strip()) if page.head.base else url
    links = [link for link in map(_head_link, page.head.link) if link is not None]
    links += [
        SuppliedLink(
            link.url.strip(), link.text or link.alt or link.title, nofollow="nofollow" in link.rel.lower().split()
        )
        for link in page.links
        if link.path in _ANCHOR_PATHS and not link.url.strip().startswith("#")
    ]
    if base != url:
        links = [msgspec.structs.replace(link, target=_join(base, link.target)) for link in links]
    return links or None


def _head_link(link: _Link) -> SuppliedLink | None:
    """Return a link of a page's head if it is a canonical or alternate link, otherwise None."""
    relations = link.rel.lower().split()
    if "canonical" in relations:
        return SuppliedLink(link.url.strip(), kind=LinkKind.CANONICAL)
    if "alternate" in relations and link.hreflang:
        return SuppliedLink(link.url.strip(), link.hreflang.lower(), kind=LinkKind.ALTERNATE)
    return None


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
