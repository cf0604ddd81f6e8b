"""sketch: turns pages into captures and material; without state, so that every core can run it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from state.codecs import document_row
from state.codecs.text_row import TextCodec
from state.model import Capture, DocumentRow, Sketch
from state.scheme import Scheme
from streams.errors import BadUrl
from streams.operators.messages import DocumentPayload, SketchedPage
from streams.operators.unchanged import raw_fingerprint
from streams.page import NOT_MODIFIED, SUCCESS_STATUSES, Page, Rejected
from streams.settings import Limits, Policy
from streams.sketch import sketcher as sketching
from streams.sketch.extract import Extracted, TextError, extract
from streams.sketch.index_terms import TEXT_WORDS_MAX, index_samples_of, index_words, index_words_of, indexed_words
from streams.sketch.sketcher import SketchBatch
from streams.urls import url_key


class Task(msgspec.Struct, frozen=True):
    """Pages of one sweep to be sketched, and the newest dictionary to keep their texts with."""

    sweep: int
    pages: list[Page]
    dictionary: int = 0
    dictionary_bytes: bytes = b""


Sketched = list[list[SketchedPage | Rejected]]
"""For each page of a task, what became of it."""


class SketchStage:
    """The operator with what it keeps between batches: scratch of the kernel, the dictionary last used."""

    def __init__(self, scheme: Scheme, policy: Policy, limits: Limits) -> None:
        self.scheme, self.policy, self.limits = scheme, policy, limits
        self.sketcher = sketching.Sketcher(scheme, limits.tokens_max)
        self._texts = TextCodec({})

    def __call__(self, task: Task) -> Sketched:
        """What became of each page, in order.

        A page is one SketchedPage or one Rejected, or both: one that has a URL but no text that can be sketched
        keeps a capture without a document, and is rejected.
        """
        if task.dictionary != self._texts.newest:
            self._texts = TextCodec({task.dictionary: task.dictionary_bytes})
        results: Sketched = []
        waiting: list[_Waiting] = []
        for page in task.pages:
            try:
                of = self._repeated(page)
            except BadUrl as error:
                results.append([Rejected("bad_url", str(error), page.origin, page.url[:200])])
                continue
            bare = Capture(
                key=page.key,
                url=page.url,
                sweep=task.sweep,
                time=page.time,
                status=page.status,
                document=None,
                raw=b"",
                redirect=page.redirect,
            )
            # What a page elsewhere repeats comes without its text: what its own URL says is all that can be indexed.
            words = self._words_of_url(bare) if of not in {None, page.key} else b""
            results.append([SketchedPage(bare, None, words, of, page.origin, page.revisit_time)])
            if page.refused is not None:
                results[-1].append(Rejected(*page.refused, page.origin, page.url))
            if of is not None or page.status not in SUCCESS_STATUSES or (page.body is None and page.text is None):
                continue
            try:
                extracted = extract(page, self.limits.page_bytes_max, self.scheme.extractor)
            except TextError as error:
                results[-1].append(Rejected(error.reason, error.detail, page.origin, page.url))
            else:
                waiting.append(_Waiting(len(results) - 1, page, bare, extracted))
        self._sketch(results, waiting)
        return results

    def _repeated(self, page: Page) -> bytes | None:
        """The key of the URL whose capture a page repeats: "not modified" repeats its own."""
        if page.revisit_of is not None:
            return url_key(page.revisit_of, self.limits.url_bytes_max)
        return page.key if page.status == NOT_MODIFIED else None

    def _words_of_url(self, held: Capture) -> bytes:
        if not self.policy.index_find:
            return b""
        return index_words(held.key, held.url, np.empty(0, np.uint32), self.sketcher)

    def _sketch(self, results: Sketched, waiting: Sequence[_Waiting]) -> None:
        """Put the sketched pages into their places of `results`."""
        words_max = TEXT_WORDS_MAX if self.policy.index_find else 0
        batch = self.sketcher.sketch_batch([each.extracted.text for each in waiting], words_max)
        buckets = sketching.buckets(batch.signatures, self.scheme)
        samples, words = self._indexed(batch, waiting)
        shingles = batch.shingles.tolist()
        for i, (at, page, bare, extracted) in enumerate(waiting):
            document = batch.documents[i] if shingles[i] and extracted.meta_refresh is None else None
            kept = Capture(
                key=bare.key,
                url=bare.url,
                sweep=bare.sweep,
                time=bare.time,
                status=bare.status,
                document=document,
                raw=raw_fingerprint(page),
                redirect=extracted.meta_refresh or bare.redirect,
                extractor=int(extracted.extractor),
            )
            if document is not None:
                payload = self._material(batch.sketch(i), kept, buckets[i].tobytes(), samples[i], extracted)
                results[at] = [SketchedPage(kept, payload, words[i], origin=page.origin)]
            elif extracted.meta_refresh is not None:
                results[at] = [SketchedPage(kept, origin=page.origin)]
            else:
                refused = Rejected("no_text", "the page holds no word", page.origin, page.url)
                results[at] = [SketchedPage(kept, origin=page.origin), refused]

    def _indexed(self, batch: SketchBatch, waiting: Sequence[_Waiting]) -> tuple[list[bytes], list[bytes]]:
        """Entries of the samples and of the words index, page by page."""
        if not self.policy.index_find:
            return [b""] * len(batch), [b""] * len(batch)
        pages = [(each.bare.key, each.page.url) for each in waiting]
        counts = np.minimum(batch.word_counts, indexed_words(batch.shingles))
        return index_samples_of(batch), index_words_of(pages, batch.words, counts, self.sketcher)

    def _material(
        self, sketch: Sketch, of: Capture, buckets: bytes, samples: bytes, extracted: Extracted
    ) -> DocumentPayload:
        text = b""
        if self.policy.keep_texts:
            text = self._texts.encode(extracted.title, extracted.text, of.time, of.raw)
        row = document_row.encode(DocumentRow(sketch, of.time))
        return DocumentPayload(sketch.document, row, buckets, samples, text)


class _Waiting(NamedTuple):
    at: int  # place of the page in the results
    page: Page
    bare: Capture
    extracted: Extracted
