"""Find candidates for a URL that no sweep captured, but to which pages link, by the words around these links.

The query consists of the anchors of the links, up to 16 words on either side of them in the same line, and the words
of the URL itself. Living pages are ranked by BM25 (Robertson and Zaragoza, "The probabilistic relevance framework",
2009) over their titles and texts, and by whether pages link to them with the same anchor. The evidence of link
substitutions (`streams.find.link_evidence`) raises the rating.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, islice

import msgspec
import numpy as np

from streams.find.answer import Candidate, Evidence
from streams.find.candidates import CandidateSelector
from streams.find.find_context import FindContext
from streams.find.link_evidence import Substitution, normalise
from streams.find.missing_rule import UrlHistory
from streams.find.report import substitution_evidence
from streams.find.text_similarity import TextFeatures
from streams.query.link_context import find_context, one_line_per_block
from streams.sketch.index_terms import page_name_hash, path_terms, segment_name_variants, site_hash
from streams.timestamps import format_iso
from streams.urls import host_prefix, key_words

_TEXTS_READ, _SITES_MAX = 16, 4
_QUERY_WORDS_MAX, _NAMES_MAX = 48, 6
_PAGES_RATED_MAX, _ANCHORS_COMPARED_MAX, _CHUNKS_PER_PAGE = 96, 16, 16
_ANCHOR_WEIGHT, _URL_WEIGHT, _CONTEXT_WEIGHT = 1.0, 0.7, 0.15
_TITLE_FACTOR = 3.0  # a word of the title weighs as much as this many occurrences in the text
_K1, _B, _USUAL_WORDS = 1.2, 0.5, 400.0  # parameters of BM25, and the number of words in a text of usual length
_SAME_ANCHOR_BONUS, _SUBSTITUTION_BONUS = 0.3, 0.8
# The confidence is logistic in the rating and in its margin to the second-best rating. It is never high, because
# the page itself is unknown.
_CONSTANT, _RATING_WEIGHT, _MARGIN_WEIGHT, _CONFIDENCE_MAX = -3.0, 2.6, 2.6, 0.85


class InLinks(msgspec.Struct, frozen=True):
    """The links to a URL: the linking pages, the number of pages by anchor, and the words near the anchors."""

    sources: Sequence[bytes]  # URL keys
    anchors: Mapping[str, int]  # number of pages by normalised anchor
    contexts: Sequence[str]
    linking_now: frozenset[bytes] = frozenset()  # the sources that still had such a link in their last capture


class _Rated(msgspec.Struct, frozen=True):
    """A living page, with its rating as a candidate."""

    history: UrlHistory
    rating: float
    has_same_anchor: bool


class NeverSeenSearch:
    """Searches the living pages for the page of a URL that was never captured."""

    def __init__(self, context: FindContext, selector: CandidateSelector) -> None:
        self._context, self._selector = context, selector

    def search(self, key: bytes, url: str) -> list[Candidate] | None:
        """Return the candidates, the best first, or None if no page has ever linked to the URL."""
        in_links = self._read_in_links(key)
        if in_links is None:
            return None
        substitutions = {s.key: s for s in self._context.link_evidence.substitutions(key, 0)}
        weights = self._query_weights(key, in_links)
        histories = self._collect(key, url, in_links, weights, substitutions)
        rated = self._rate(key, histories, weights, in_links.anchors, substitutions)
        return [
            self._candidate(rated, n, in_links, substitutions)
            for n in range(min(len(rated), self._context.settings.answers_max))
        ]

    def _read_in_links(self, key: bytes) -> InLinks | None:
        links = self._context.link_evidence
        anchors_by_chunk = links.anchors_by_chunk(key)
        sources = links.sample_sources(anchors_by_chunk)
        linking = links.last_captures_with(sources, anchors_by_chunk)
        if not linking:
            return None
        anchors: Counter[str] = Counter()
        for _, chunk_ids in linking:
            anchors.update({anchor for id_ in chunk_ids for anchor in anchors_by_chunk.get(id_, ())})
        documents = [c.document for c, _ in linking[:_TEXTS_READ] if c.document is not None]
        texts = self._context.view.titles_and_texts(list(dict.fromkeys(documents)))
        blocks = [one_line_per_block(text[1]).casefold() for text in texts if text is not None]  # like the anchors
        contexts = [" ".join(find_context(text, anchor)) for text in blocks for anchor in anchors]
        histories = self._context.url_histories.get_many(capture.key for capture, _ in linking)
        linking_now = (h.key for h, (capture, _) in zip(histories, linking, strict=True) if h.last_page == capture)
        return InLinks([capture.key for capture, _ in linking], anchors, contexts, frozenset(linking_now))

    def _query_weights(self, key: bytes, in_links: InLinks) -> dict[int, float]:
        """Return the weights of the query's words by hash: rare words weigh more, and anchors more than contexts."""
        targets_per_anchor = self._context.link_evidence.targets_per_anchor(host_prefix(in_links.sources[0]))
        weights: dict[int, float] = defaultdict(float)
        parts = [
            *((anchor, _ANCHOR_WEIGHT / targets_per_anchor.get(anchor, 1)) for anchor in in_links.anchors),
            (" ".join(key_words(key)), _URL_WEIGHT),
            (" ".join(in_links.contexts), _CONTEXT_WEIGHT),
        ]
        for text, weight in parts:
            words, _ = self._context.sketcher.words_and_counts(text)
            for word in words.tolist():
                weights[word] = max(weights[word], weight)
        words = np.array(sorted(weights), dtype=np.uint32)
        idf = self._context.site_statistics(host_prefix(key)).idf(words)
        products = {word: weights[word] * value for word, value in zip(words.tolist(), idf.tolist(), strict=True)}
        best = sorted(products, key=lambda word: (-products[word], word))[:_QUERY_WORDS_MAX]
        return {word: products[word] for word in best}

    def _collect(
        self, key: bytes, url: str, in_links: InLinks, weights: Mapping[int, float],
        substitutions: Mapping[bytes, Substitution],
    ) -> list[UrlHistory]:  # fmt: skip
        """Return the histories of living pages that share words with the query or replace the URL in links."""
        hosts = dict.fromkeys(map(host_prefix, (key, *in_links.sources)))
        sites = list(dict.fromkeys(site_hash(host + b"/") for host in hosts))[:_SITES_MAX]
        names = [page_name_hash(name) for name in segment_name_variants(url)[:_NAMES_MAX]]
        anchor_names = [
            page_name_hash("".join(filter(str.isalnum, anchor))) for anchor in islice(in_links.anchors, 6)
        ]
        words = dict.fromkeys([*names, *anchor_names, *path_terms(url, self._context.sketcher), *weights])
        strengths = self._selector.strengths_by_words(sites, words)
        prefixes = sorted(strengths, key=lambda prefix: (-strengths[prefix], prefix))[:_PAGES_RATED_MAX]
        locations = chain.from_iterable(self._context.latest_locations.get_many(prefixes))
        excluded = {key, *in_links.linking_now}  # a page that links to the URL is not its page
        keys = [k for k in dict.fromkeys([*substitutions, *locations]) if k not in excluded]
        histories = self._context.url_histories.get_many(keys[: 2 * _PAGES_RATED_MAX])
        return [history for history in histories if history.is_alive and history.pages][:_PAGES_RATED_MAX]

    def _rate(
        self, key: bytes, histories: list[UrlHistory], weights: Mapping[int, float], anchors: Mapping[str, int],
        substitutions: Mapping[bytes, Substitution],
    ) -> list[_Rated]:  # fmt: skip
        documents = [history.pages[-1].document or b"" for history in histories]
        features = self._context.text_features.by_document.get_many(documents)
        ratings: dict[bytes, float] = {}
        for history, page in zip(histories, features, strict=True):
            substitution = substitutions.get(history.key)
            bonus = _SUBSTITUTION_BONUS * substitution.strength if substitution is not None else 0.0
            ratings[history.key] = bonus + (self._bm25(weights, page) if page is not None else 0.0)
        best = sorted(histories, key=lambda h: (-ratings[h.key], h.key))[:_ANCHORS_COMPARED_MAX]
        same = self._with_same_anchor([h.key for h in best], key, anchors)
        self._context.soft_404_detector.preload(h.last_page for h in best)
        rated = [
            _Rated(h, ratings[h.key] + _SAME_ANCHOR_BONUS * (h.key in same), h.key in same)
            for h in best
            if not self._context.soft_404_detector.has_suspected_page(h)
        ]
        return sorted(rated, key=lambda r: (-r.rating, r.history.key))

    def _bm25(self, weights: Mapping[int, float], page: TextFeatures) -> float:
        """Return the BM25 score of a page as a share of the highest possible score."""
        counts: dict[int, float] = dict(zip(page.words.tolist(), np.expm1(page.log_counts).tolist(), strict=True))
        for word in self._context.text_features.title_words(page.title).tolist():
            counts[word] = counts.get(word, 0.0) + _TITLE_FACTOR
        norm = _K1 * (1 - _B + _B * sum(counts.values()) / _USUAL_WORDS)
        shared = ((weight, counts[word]) for word, weight in weights.items() if word in counts)
        value = sum(weight * count / (count + norm) for weight, count in shared)
        return value / (sum(weights.values()) or 1.0)

    def _with_same_anchor(self, keys: Sequence[bytes], key: bytes, anchors: Mapping[str, int]) -> set[bytes]:
        """Return the URLs to which pages link with an anchor of `key` that has hardly any other targets."""
        targets_per_anchor = self._context.link_evidence.targets_per_anchor(host_prefix(key))
        specific_anchors = {anchor for anchor in anchors if targets_per_anchor.get(anchor, 1) <= 2}
        view, same = self._context.view, set()
        prefixes = view.chunk_prefixes(keys, _CHUNKS_PER_PAGE)
        chunks = view.link_chunks_by_prefixes(list(dict.fromkeys(chain.from_iterable(prefixes))))
        candidate_keys = set(keys)
        for link in chain.from_iterable(chunks.values()):
            if link.target in candidate_keys and normalise(link.anchor) in specific_anchors:
                same.add(link.target)
        return same

    def _candidate(
        self, rated: list[_Rated], n: int, in_links: InLinks, substitutions: Mapping[bytes, Substitution]
    ) -> Candidate:
        history = rated[n].history
        second = max((other.rating for m, other in enumerate(rated) if m != n), default=0.0)
        evidence = []
        if (substitution := substitutions.get(history.key)) is not None:
            evidence.append(substitution_evidence(substitution))
        anchor = min(in_links.anchors.items(), key=lambda item: (-item[1], item[0]))[0]
        evidence.append(
            Evidence("anchors", round(min(1.0, rated[n].rating), 4), pages=len(in_links.sources), anchor=anchor)
        )
        if rated[n].has_same_anchor:
            evidence.append(Evidence("same_anchor"))
        return Candidate(
            url=history.pages[-1].url,
            confidence=round(confidence(rated[n].rating, second), 4),
            first_seen=format_iso(history.pages[0].time),
            last_seen=format_iso(history.pages[-1].time),
            evidence=evidence,
        )


def confidence(rating: float, second_rating: float) -> float:
    """Return the probability that a candidate is right, given its rating and that of the best other candidate."""
    margin = max(-1.0, min(1.0, (rating - second_rating) / max(rating, 0.2)))
    logit = _CONSTANT + _RATING_WEIGHT * rating + _MARGIN_WEIGHT * margin
    return min(_CONFIDENCE_MAX, 1 / (1 + math.exp(-logit)))
