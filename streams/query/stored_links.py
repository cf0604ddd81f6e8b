"""Read the links to and from a URL: the source, the target, the anchor text, and when the page had the link.

A capture refers to the list of its page's links. The first and the last capture that refer to a list therefore show
when the page had these links. No other times are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from state.codecs import url_key as url_key_codec
from state.model import Capture, Link, LinkKind
from state.view import View
from streams.query.link_context import find_context, one_line_per_block

_CHUNKS_PER_LOOKUP = 256  # the links of so many chunks are in memory at the same time
_SOURCES_PER_LOOKUP = 64  # the texts of so many pages are in memory at the same time


class StoredLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link from a page to a URL, and the times of the first and the last capture of the page with this link."""

    source: str
    target: str
    anchor: str
    first_seen: int  # ms since the epoch
    last_seen: int
    kind: str  # "anchor", "canonical", "alternate", "refresh" or "script"
    first_sweep: str
    last_sweep: str
    nofollow: bool
    navigation: bool
    context: tuple[str, str] = ("", "")  # the words before and after the link; empty unless requested and stored


class _Span(msgspec.Struct):
    """The first and the last capture with a link."""

    first: Capture
    last: Capture


_LinkKey = tuple[bytes, LinkKind, str]
"""The target, kind and anchor of a link. Links of a page that agree in all three are one link."""


def links_from(
    view: View, key: bytes, sweep: int | None = None, *, with_context: bool = False
) -> Iterator[StoredLink]:
    """Yield the links of a page in their order on the page. With `sweep`, yield only the links of this sweep."""
    sweep_names = _sweep_names(view)
    captures = _captures_with_links(view.histories([key])[0], sweep_names, sweep)
    lists = view.link_lists({(key, capture.links) for capture in captures})
    chunks = view.link_chunks({id_ for ids in lists.values() for id_ in ids})
    yield from _stored_links(view, _merge(captures, lists, chunks), sweep_names, with_context=with_context)


def links_to(view: View, key: bytes, sweep: int | None = None, *, with_context: bool = False) -> Iterator[StoredLink]:
    """Yield the links to a URL by source, in the order of the sources' keys."""
    sweep_names = _sweep_names(view)
    chunks = _chunks_with_target(view, key)
    for sources in _batches(_sources(view, list(chunks))):
        histories = view.histories(sources)
        captures = {
            source: _captures_with_links(history, sweep_names, sweep)
            for source, history in zip(sources, histories, strict=True)
        }
        lists = view.link_lists({(source, c.links) for source, history in captures.items() for c in history})
        merged = (item for source in sources for item in _merge(captures[source], lists, chunks))
        yield from _stored_links(view, merged, sweep_names, with_context=with_context)


def _chunks_with_target(view: View, key: bytes) -> dict[bytes, list[Link]]:
    """Return the chunks that link to a URL, by chunk id, with only the links to this URL."""
    matching: dict[bytes, list[Link]] = {}
    for prefixes in view.iterate_chunk_prefixes(key, _CHUNKS_PER_LOOKUP):
        for id_, links in view.link_chunks_by_prefixes(prefixes).items():
            if links_to_url := [link for link in links if link.target == key]:
                matching[id_] = links_to_url
    return matching


def _sources(view: View, chunk_ids: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the keys of the pages with any of these chunks, in ascending order, each once."""
    yield from sorted({key for keys in view.chunk_pages(chunk_ids, None) for key in keys})


def _batches(keys: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(islice(keys, _SOURCES_PER_LOOKUP)):
        yield batch


def _sweep_names(view: View) -> dict[int, str]:
    return {sweep.number: sweep.name for sweep in view.sweeps()}


def _captures_with_links(
    history: Iterable[Capture], sweep_names: Mapping[int, str], sweep: int | None
) -> list[Capture]:
    captures = [capture for capture in history if capture.links and capture.sweep in sweep_names]
    return captures if sweep is None else [capture for capture in captures if capture.sweep == sweep]


def _merge(
    captures: Sequence[Capture],
    lists: Mapping[tuple[bytes, bytes], Sequence[bytes]],
    chunks: Mapping[bytes, Sequence[Link]],
) -> Iterator[tuple[Link, _Span]]:
    """Yield each link of a page's captures once, with the first and the last capture that have it.

    The flags are those of the last capture.
    """
    seen_lists: dict[bytes, _Span] = {}
    for capture in captures:
        seen_lists.setdefault(capture.links, _Span(capture, capture)).last = capture
    seen: dict[_LinkKey, tuple[Link, _Span]] = {}
    for list_id, span in seen_lists.items():
        for chunk_id in lists.get((span.first.key, list_id), ()):
            for link in chunks.get(chunk_id, ()):
                link_key = (link.target, link.kind, link.anchor)
                if link_key not in seen:
                    seen[link_key] = (link, _Span(span.first, span.last))
                    continue
                known_link, known = seen[link_key]
                if _order(known.last) < _order(span.last):
                    known_link, known.last = link, span.last
                known.first = min(known.first, span.first, key=_order)
                seen[link_key] = (known_link, known)
    return iter(seen.values())


def _stored_links(
    view: View, merged: Iterable[tuple[Link, _Span]], sweep_names: Mapping[int, str], *, with_context: bool
) -> Iterator[StoredLink]:
    """Yield links as results. With `with_context`, read the words around each link in its last capture."""
    links = list(merged)
    texts: dict[bytes, str] = {}
    if with_context:
        documents = sorted({seen.last.document for _, seen in links if seen.last.document is not None})
        stored_texts = zip(documents, view.titles_and_texts(documents), strict=True)
        texts = {document: one_line_per_block(stored[1]) for document, stored in stored_texts if stored is not None}
    for link, seen in links:
        text = texts.get(seen.last.document or b"", "")
        yield StoredLink(
            source=seen.last.url,
            target=url_key_codec.url_of(link.target, https=link.https),
            anchor=link.anchor,
            first_seen=seen.first.time,
            last_seen=seen.last.time,
            kind=link.kind.name.lower(),
            first_sweep=sweep_names[seen.first.sweep],
            last_sweep=sweep_names[seen.last.sweep],
            nofollow=link.nofollow,
            navigation=link.navigation,
            context=("", "") if link.navigation else find_context(text, link.anchor),
        )


def _order(capture: Capture) -> tuple[int, int]:
    return capture.sweep, capture.time
