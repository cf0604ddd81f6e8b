"""A state in memory, so that a test can describe the history of a site in a few lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pytest

from state.codecs import link_chunk, link_list
from state.model import PREFIX_BYTES, Capture, Decision, DocumentRow, Link, Sketch, Sweep, SweepState
from state.scheme import Scheme
from streams import settings as settings_module
from streams.find import Answer, Candidate, Finder
from streams.sketch import sketcher
from streams.sketch.index_terms import choose_text_words, most_divisible_shingles, text_word_limits, word_entries
from streams.sketch.sketcher import Sketcher
from streams.urls import host_prefix, url_key

if TYPE_CHECKING:
    from state.view import View

DAY = 86_400_000
SCHEME = Scheme()
SKETCHER = Sketcher(SCHEME)
THRESHOLD = 0.7


class MemoryView:
    """A View in memory: `add` adds a sweep, given as a text or a status by URL, and as redirects."""

    scheme = SCHEME

    def __init__(self, *, texts: bool = True) -> None:
        self.keep_texts = texts
        self.texts_read = 0
        self._sweeps: list[Sweep] = []
        self._captures: dict[bytes, list[Capture]] = defaultdict(list)
        self._hosts: dict[int, dict[bytes, int]] = defaultdict(lambda: defaultdict(int))
        self._rows: dict[bytes, DocumentRow] = {}
        self._texts: dict[bytes, tuple[str, str]] = {}
        self._locations: dict[bytes, set[bytes]] = defaultdict(set)
        self._postings: dict[tuple[str, bytes], set[bytes]] = defaultdict(set)
        self._roots: dict[bytes, bytes] = {}
        self._decisions: dict[bytes, Decision] = {}
        self.results: dict[str, list[bytes]] = {}  # of analyses, by name
        self._links: dict[tuple[bytes, bytes], list[list[Link]]] = {}  # chunks, by URL key and list id

    def add(
        self, pages: dict[str, str | int], *, redirects: dict[str, str] | None = None, committed: bool = True
    ) -> MemoryView:
        number = len(self._sweeps) + 1
        time = number * 100 * DAY
        state = SweepState.COMMITTED if committed else SweepState.OPEN
        self._sweeps.append(
            Sweep(number=number, name=f"sweep-{number}", state=state, opened_time=time, committed_time=time)
        )
        for url, content in pages.items():
            if isinstance(content, int):
                self._capture(url, content)
            else:
                self._capture(url, 200, document=self._document(url, content, time))
        for url, target in (redirects or {}).items():
            self._capture(url, 301, redirect=target)
        return self

    def add_to_last_sweep(self, statuses: dict[str, int]) -> MemoryView:
        for url, status in statuses.items():
            self._capture(url, status, delay=1)
        return self

    def link(self, source: str, *links: tuple[str, str] | Link, navigation: bool = False) -> MemoryView:
        """Set the links of a page's capture in the last sweep, each given as target and anchor."""
        key = url_key(source)
        stored = [
            link
            if isinstance(link, Link)
            else Link(target=url_key(link[0]), https=True, anchor=link[1], navigation=navigation)
            for link in links
        ]
        chunks = [stored[at : at + 2] for at in range(0, len(stored), 2)]
        list_id = link_list.compute_list_id([_chunk_id(chunk) for chunk in chunks])
        self._links[key, list_id] = chunks
        capture = self._captures[key][-1]
        assert capture.sweep == len(self._sweeps)
        self._captures[key][-1] = msgspec.structs.replace(capture, links=list_id)
        return self

    def link_lists(self, keys_and_ids: set[tuple[bytes, bytes]]) -> dict[tuple[bytes, bytes], list[bytes]]:
        return {k: [_chunk_id(c) for c in self._links[k]] for k in keys_and_ids if k in self._links}

    def _all_chunks(self) -> dict[bytes, list[Link]]:
        return {_chunk_id(chunk): chunk for chunks in self._links.values() for chunk in chunks}

    def link_chunks(self, ids: list[bytes]) -> dict[bytes, list[Link]]:
        return {id_: chunk for id_, chunk in self._all_chunks().items() if id_ in ids}

    def link_chunks_by_prefixes(self, prefixes: list[bytes]) -> dict[bytes, list[Link]]:
        return {id_: chunk for id_, chunk in self._all_chunks().items() if id_[:5] in prefixes}

    def chunk_prefixes(self, keys: list[bytes], limit: int) -> list[list[bytes]]:
        chunks = sorted(self._all_chunks().items())
        return [[id_[:5] for id_, chunk in chunks if any(x.target == key for x in chunk)][:limit] for key in keys]

    def chunk_pages(self, ids: list[bytes], limit: int) -> list[list[bytes]]:
        pages = [(_chunk_id(chunk), key) for (key, _), chunks in self._links.items() for chunk in chunks]
        return [sorted({key for chunk, key in pages if chunk == id_})[:limit] for id_ in ids]

    def decide(self, *decisions: Decision) -> MemoryView:
        self._decisions.update((decision.key, decision) for decision in decisions)
        return self

    def decisions(self, keys: list[bytes]) -> list[Decision | None]:
        return [self._decisions.get(key) for key in keys]

    def all_decisions(self, prefix: bytes = b"") -> Iterator[Decision]:
        return (decision for key, decision in sorted(self._decisions.items()) if key.startswith(prefix))

    def newest_results(self, analysis: str, _method: str) -> Iterator[bytes]:
        return iter(self.results.get(analysis, []))

    def _capture(
        self, url: str, status: int, *, document: bytes | None = None, redirect: str | None = None, delay: int = 0
    ) -> None:
        key, number = url_key(url), len(self._sweeps)
        row = Capture(
            key=key,
            url=url,
            sweep=number,
            time=number * 100 * DAY + delay,
            status=status,
            document=document,
            raw_fingerprint=b"",
            redirect=redirect,
        )
        self._captures[key].append(row)
        self._hosts[number][host_prefix(key)] += 1

    def _document(self, url: str, text: str, time: int) -> bytes:
        sketch = SKETCHER.sketch(text)
        prefix, key = sketch.document[:PREFIX_BYTES], url_key(url)
        self._rows.setdefault(sketch.document, DocumentRow(sketch, time))
        self._texts[sketch.document] = ("", text)
        is_new = sketch.document not in self._roots
        self._locations[sketch.document].add(key)
        for bucket in sketcher.cut_into_buckets(sketch.signature[None, :], SCHEME)[0]:
            self._postings["band", bucket.tobytes()].add(prefix)
        if is_new:
            self._join(sketch)
        for value in most_divisible_shingles(sketch):
            self._postings["sample", value.to_bytes(4, "big")].add(prefix)
        words = choose_text_words(*SKETCHER.words_and_counts(text))[
            : int(text_word_limits(np.array(sketch.shingles)))
        ]
        entries = word_entries(key, url, words, SKETCHER)
        for at in range(0, len(entries), 8):
            self._postings["word", entries[at : at + 8]].add(prefix)
        return sketch.document

    def _join(self, sketch: Sketch) -> None:
        """Add a new document to the clusters of its near-duplicates."""
        self._roots[sketch.document] = sketch.document
        buckets = sketcher.cut_into_buckets(sketch.signature[None, :], SCHEME)[0]
        prefixes: set[bytes] = set().union(*(self._postings["band", bucket.tobytes()] for bucket in buckets))
        for row in self.documents_by_prefixes(sorted(prefixes)):
            if sketcher.compare(sketch, row.sketch).resemblance >= THRESHOLD:
                joined = {self._roots[sketch.document], self._roots[row.sketch.document]}
                self._roots.update({d: min(joined) for d, root in self._roots.items() if root in joined})

    def roots(self, documents: list[bytes]) -> list[bytes]:
        return [self._roots[document] for document in documents]

    def some_members(self, roots: list[bytes], limit: int) -> list[list[bytes]]:
        members = [sorted(d for d, r in self._roots.items() if r == root != d)[:limit] for root in roots]
        return [[root, *others] for root, others in zip(roots, members, strict=True)]

    def sweeps(self) -> list[Sweep]:
        return self._sweeps

    def captures_per_host(self, number: int, start: bytes = b"", limit: int | None = None) -> dict[bytes, int]:
        return dict(islice(((host, n) for host, n in sorted(self._hosts[number].items()) if host >= start), limit))

    def captures_on_host(self, number: int, host: bytes) -> int:
        return self._hosts[number].get(host, 0)

    def all_captures(self, prefix: bytes = b"") -> Iterator[Capture]:
        keys = sorted(key for key in self._captures if key.startswith(prefix))
        return (capture for key in keys for capture in self._captures[key])

    def captures(self, key: bytes) -> list[Capture]:
        return list(self._captures.get(key, []))

    def histories(self, keys: list[bytes]) -> list[list[Capture]]:
        return [self.captures(key) for key in keys]

    def url_keys_under(self, prefix: bytes, captures_max: int, start: bytes | None = None) -> list[bytes]:
        keys = sorted(key for key in self._captures if key.startswith(prefix) and key >= (start or b""))
        return list(dict.fromkeys(capture.key for key in keys for capture in self._captures[key][:captures_max]))[
            :captures_max
        ]

    def url_keys_under_each(self, prefixes: list[bytes], captures_max: int) -> list[bytes]:
        return list(dict.fromkeys(key for prefix in prefixes for key in self.url_keys_under(prefix, captures_max)))

    def documents_by_prefixes(self, prefixes: list[bytes]) -> list[DocumentRow]:
        return [row for prefix in prefixes for key, row in self._rows.items() if key.startswith(prefix)]

    def documents(self, documents: list[bytes]) -> list[DocumentRow | None]:
        return [self._rows.get(document) for document in documents]

    def locations(self, documents: list[bytes], limit: int) -> list[list[bytes]]:
        return [[key for key, _ in locations] for locations in self.locations_with_times(documents, limit)]

    def locations_with_times(self, documents: list[bytes], limit: int) -> list[list[tuple[bytes, int]]]:
        locations = sorted((document, key) for document, keys in self._locations.items() for key in keys)
        matching = [[row for row in locations if b"".join(row).startswith(prefix)][:limit] for prefix in documents]
        return [[(key, self._first_seen(document, key)) for document, key in rows] for rows in matching]

    def _first_seen(self, document: bytes, key: bytes) -> int:
        return min(c.time for c in self._captures[key] if c.document == document)

    def titles_and_texts(self, documents: list[bytes]) -> list[tuple[str, str] | None]:
        self.texts_read += len(documents)
        return [self._texts.get(document) if self.keep_texts else None for document in documents]

    def bucket_postings(self, buckets: list[bytes]) -> list[list[bytes]]:
        return [sorted(self._postings.get(("band", bucket), ())) for bucket in buckets]

    def sample_postings(self, values: list[int], limit: int) -> list[list[bytes]]:
        return [sorted(self._postings.get(("sample", value.to_bytes(4, "big")), ()))[:limit] for value in values]

    def word_postings(self, words: list[tuple[bytes, int]], limit: int) -> list[list[bytes]]:
        keys = (site + word.to_bytes(4, "big") for site, word in words)
        return [sorted(self._postings.get(("word", key), ()))[:limit] for key in keys]


def _chunk_id(links: list[Link]) -> bytes:
    return link_chunk.compute_chunk_id(link_chunk.encode(links))


@pytest.fixture
def view() -> MemoryView:
    return MemoryView()


@pytest.fixture
def view_without_texts() -> MemoryView:
    return MemoryView(texts=False)


@pytest.fixture
def finder() -> Callable[..., Finder]:
    return finder_of


def as_view(view: MemoryView) -> View:
    """Return the view as the type that `find` takes: it has all methods of a View that `find` calls."""
    return cast("View", view)


def finder_of(view: MemoryView, **find_settings: object) -> Finder:
    """Return a finder with the default settings, except for these settings of the search."""
    return Finder(as_view(view), settings_module.load(None, {"find": find_settings}))


def prose(subject: str, sentences: int = 40) -> str:
    """Return a text about a subject; texts about different subjects share no four consecutive words."""
    return " ".join(
        f"The {subject} number{n} of {subject}s says {subject}{n * 7919 % 101} before {subject}{n * 31 % 97} ends."
        for n in range(sentences)
    )


@pytest.fixture
def text() -> Callable[..., str]:
    return prose


@pytest.fixture
def pages(text: Callable[..., str]) -> dict[str, str]:
    """Return twelve pages that stay alive, so that the site has common words and rare words."""
    shared = "Home About Contact Imprint all rights reserved by the makers of this fine site. "
    subjects = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "willow"]
    return {f"https://site.example/trees/{name}.html": shared + text(name) for name in subjects}


def best(answer: Answer) -> Candidate:
    """Return the first candidate."""
    return answer.candidates[0]


def kinds(answer: Answer) -> set[str]:
    """Return the kinds of evidence of the first candidate."""
    return {evidence.kind for evidence in best(answer).evidence}
