"""sketch: turns pages into captures and document payloads. It reads no state, so it can run on all cores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from state.codecs import document_row, link_chunk, link_list
from state.codecs.text_row import TextCodec
from state.model import Capture, DocumentRow
from state.scheme import Scheme
from streams.errors import BadUrl
from streams.operators.capture import fingerprint_page, new_capture
from streams.operators.messages import DocumentPayload, SketchedPage
from streams.page import NOT_MODIFIED, NotAPage, Page, Rejected
from streams.settings import Limits, Policy
from streams.sketch import content_kind
from streams.sketch import sketcher as sketching
from streams.sketch.content_kind import ContentKind
from streams.sketch.extract import NO_VISIBLE_TEXT, ExtractedText, TextError, extract
from streams.sketch.html_guard import ParserLimits
from streams.sketch.index_terms import (
    TEXT_WORDS_MAX,
    sample_entries_of_batch,
    text_word_limits,
    word_entries,
    word_entries_of_pages,
)
from streams.sketch.links import LinkExtractor, LinkPayload
from streams.sketch.sketcher import SketchBatch
from streams.urls import url_key


class SketchTask(msgspec.Struct, frozen=True):
    """Pages of one sweep to sketch, and the newest dictionary for compressing their texts."""

    sweep: int
    pages: list[Page]
    dictionary_number: int = 0  # 0: no dictionary
    dictionary: bytes = b""


SketchResults = list[list[SketchedPage | Rejected | NotAPage]]
"""One list per page of a task, with one or two results."""

SHORT_TEXT_CHARS = 200  # a script may redirect a page that has no more text than this
_ExtractedPage = tuple[int, Page, ExtractedText, LinkPayload | None]  # index in the task, page, text, links


class SketchOperator:
    """The operator, with the memory that it reuses: the kernel's scratch arrays, and the newest dictionary."""

    def __init__(self, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        self.scheme, self.policy, self.limits = scheme, policy, limits
        self.sketcher = sketching.Sketcher(scheme, limits.tokens_max)
        self._text_codec = TextCodec({})
        self._parser_limits = ParserLimits.from_settings(limits)
        self._link_extractor: LinkExtractor | None = None
        if policy.keep_links != "off":
            self._link_extractor = LinkExtractor(
                keep_anchors=policy.keep_links == "anchors",
                links_max=limits.links_max,
                anchor_chars_max=limits.anchor_chars_max,
                url_bytes_max=limits.url_bytes_max,
            )

    def __call__(self, task: SketchTask) -> SketchResults:
        """Return the results of each page, in order: a SketchedPage, a Rejected, or both.

        A page with a valid URL but no usable text has both results: a capture without a document, and the reason. A
        response that is not a page has a capture without a document, and a NotAPage.
        """
        if task.dictionary_number != self._text_codec.newest:
            self._text_codec = TextCodec({task.dictionary_number: task.dictionary})
        results: SketchResults = []
        extracted: list[tuple[int, Page, ExtractedText]] = []
        for page in task.pages:
            try:
                original_key = self._original_key(page)
            except BadUrl as error:
                results.append([Rejected("bad_url", str(error), page.origin, page.url[:200])])
                continue
            kind = content_kind.detect(page, self.policy)
            if kind is ContentKind.NOT_A_PAGE:
                sketched_page = SketchedPage(capture=new_capture(page, task.sweep), origin=page.origin)
                results.append([sketched_page, NotAPage(page.mime, page.origin)])
                continue
            links = None
            if kind is not None and page.body is None and page.text is None:
                links = self._supplied_links(page)
            results.append([self._page_without_document(page, task.sweep, original_key, links)])
            if page.content_error is not None:
                results[-1].append(Rejected(*page.content_error, page.origin, page.url))
            has_content = page.body is not None or page.text is not None
            if kind is None or original_key is not None or not has_content:
                continue
            try:
                text = extract(
                    page, kind, self.limits.page_bytes_max, self.scheme.extractor, self._parser_limits,
                    keep_html=self._link_extractor is not None,
                )  # fmt: skip
            except TextError as error:
                results[-1].append(Rejected(error.reason, error.detail, page.origin, page.url))
            else:
                extracted.append((len(results) - 1, page, text))
        self._sketch(results, self._add_links(results, extracted), task.sweep)
        return results

    def _add_links(
        self, results: SketchResults, extracted: Sequence[tuple[int, Page, ExtractedText]]
    ) -> list[_ExtractedPage]:
        """Return the pages with their links. Reject pages with neither a text nor a link.

        Between two texts, the parser would evict the compiled code of links from the CPU's caches, so the links of
        all pages are extracted together.
        """
        pages: list[_ExtractedPage] = []
        for index, page, text in extracted:
            if self._link_extractor is None or text.html is None:
                links = self._supplied_links(page)
            else:
                is_short = len(text.text) <= SHORT_TEXT_CHARS
                links = self._link_extractor.from_html(
                    text.html, page.url, page.key, text.meta_refresh, is_short=is_short
                )
            if text.text or text.meta_refresh is not None or links is not None:
                pages.append((index, page, text, links))
            else:
                results[index].append(Rejected("no_text", NO_VISIBLE_TEXT, page.origin, page.url))
        return pages

    def _supplied_links(self, page: Page) -> LinkPayload | None:
        """Return the links that the crawler extracted, or None if it supplied no links or links are not stored."""
        if self._link_extractor is None or not page.links:
            return None
        return self._link_extractor.from_links(page.links, page.url, page.key)

    def _original_key(self, page: Page) -> bytes | None:
        """Return the key of the URL whose capture a revisit repeats; None unless the page is a revisit."""
        if page.original_url is not None:
            return url_key(page.original_url, self.limits.url_bytes_max)
        return page.key if page.status == NOT_MODIFIED else None

    def _page_without_document(
        self, page: Page, sweep: int, original_key: bytes | None, links: LinkPayload | None
    ) -> SketchedPage:
        words = b""
        if self.policy.index_find and original_key not in {None, page.key}:
            # A revisit of a different URL has no text, so only the words of its own URL can be indexed.
            words = word_entries(page.key, page.url, np.empty(0, np.uint32), self.sketcher)
        return SketchedPage(
            capture=new_capture(page, sweep, links=_list_id(links)),
            words=words,
            links=links,
            original_key=original_key,
            origin=page.origin,
            original_time=page.original_time,
        )

    def _sketch(self, results: SketchResults, pages: Sequence[_ExtractedPage], sweep: int) -> None:
        """Sketch the extracted texts, and replace the results of their pages."""
        words_max = TEXT_WORDS_MAX if self.policy.index_find else 0
        batch = self.sketcher.sketch_batch([text.text for _, _, text, _ in pages], words_max)
        buckets = sketching.cut_into_buckets(batch.signatures, self.scheme)
        samples, words = self._index_entries(batch, pages)
        shingles = batch.shingles.tolist()
        for i, (index, page, extracted, links) in enumerate(pages):
            document = batch.documents[i] if shingles[i] and extracted.meta_refresh is None else None
            capture = new_capture(
                page, sweep, document, fingerprint_page(page), int(extracted.extractor), _list_id(links)
            )
            if extracted.meta_refresh:
                capture = msgspec.structs.replace(capture, redirect=extracted.meta_refresh)
            if document is not None:
                payload = DocumentPayload(
                    document=document,
                    row=document_row.encode(DocumentRow(batch.sketch(i), page.time)),
                    buckets=buckets[i].tobytes(),
                    samples=samples[i],
                    text=self._encode_text(extracted, capture),
                )
                results[index] = [
                    SketchedPage(capture=capture, payload=payload, words=words[i], links=links, origin=page.origin)
                ]
                continue
            results[index] = [SketchedPage(capture=capture, links=links, origin=page.origin)]
            if extracted.meta_refresh is None:
                results[index].append(Rejected("no_text", "the page has no words", page.origin, page.url))

    def _encode_text(self, extracted: ExtractedText, capture: Capture) -> bytes:
        if not self.policy.keep_texts:
            return b""
        return self._text_codec.encode(extracted.title, extracted.text, capture.time, capture.raw_fingerprint)

    def _index_entries(self, batch: SketchBatch, pages: Sequence[_ExtractedPage]) -> tuple[list[bytes], list[bytes]]:
        """Return, per page, its entries in the index of samples and in the word index."""
        if not self.policy.index_find:
            return [b""] * len(batch), [b""] * len(batch)
        urls = [(page.key, page.url) for _, page, _, _ in pages]
        counts = np.minimum(batch.indexed_words_per_text, text_word_limits(batch.shingles))
        return sample_entries_of_batch(batch), word_entries_of_pages(urls, batch.indexed_words, counts, self.sketcher)


def _list_id(links: LinkPayload | None) -> bytes:
    return (
        link_list.compute_list_id(list(map(link_chunk.compute_chunk_id, links.chunks))) if links is not None else b""
    )
