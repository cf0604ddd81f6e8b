"""Generate pages for a simulation: short near-duplicate texts at URLs that change, recur and redirect.

Pages of one document have different titles, and their URLs different spellings.
"""

from __future__ import annotations

import random
from functools import cache

import msgspec

from state.codecs import document_row, link_chunk, link_list
from state.codecs.text_row import TextCodec
from state.model import Capture, Decision, DecisionKind, DocumentRow, Link
from state.scheme import Scheme
from streams.operators.messages import DocumentPayload, SketchedPage
from streams.sketch import sketcher as sketching
from streams.sketch.index_terms import sample_entries, word_entries
from streams.sketch.links import LinkPayload
from streams.urls import url_key

# Few rows per band: similar and dissimilar pairs collide, but only in some bands.
SCHEME = Scheme(bands=8, rows=2)
FAMILIES, VARIANTS = 12, 8
SPELLINGS = ("%20", " ")  # of a character in the path
SKETCHER = sketching.Sketcher(SCHEME)
TEXTS = TextCodec({})


class Text(msgspec.Struct, frozen=True):
    """A document for the generated pages."""

    text: str
    payload: DocumentPayload


@cache
def pool() -> list[list[Text]]:
    """Return families of similar documents, the same in every run."""
    rng = random.Random(7)
    vocabulary = [f"word{n}" for n in range(400)]
    families = []
    for _ in range(FAMILIES):
        words = rng.choices(vocabulary, k=rng.randint(12, 40))
        texts = []
        for _ in range(VARIANTS):
            texts.append(" ".join(words))
            words = list(words)
            words[rng.randrange(len(words))] = rng.choice(vocabulary)
        families.append([document(text) for text in texts])
    return families


def document(text: str) -> Text:
    """Return a text with its sketch and the entries of its indexes."""
    sketch = SKETCHER.sketch(text)
    row = document_row.encode(DocumentRow(sketch, 0))
    buckets = sketching.cut_into_buckets(sketch.signature[None, :], SCHEME)[0].tobytes()
    return Text(
        text,
        DocumentPayload(document=sketch.document, row=row, buckets=buckets, samples=sample_entries(sketch), text=b""),
    )


@cache
def _chunk_pool() -> list[bytes]:
    """Return chunks of links, the same in every run. Chunks share targets, and pages share chunks."""
    rng = random.Random(11)
    targets = [url_key(f"https://{host}.example.org/p{number}") for host in "ab" for number in range(8)]
    return [
        link_chunk.encode([Link(target=target, anchor=f"to {rng.randrange(3)}") for target in rng.sample(targets, 3)])
        for _ in range(12)
    ]


def _links(key: bytes, text: str) -> LinkPayload | None:
    """Return the links of a page, which depend only on its URL and text; one page in eight has none."""
    rng = random.Random(f"{key!r} {text}")
    chunks = [rng.choice(_chunk_pool()) for _ in range(rng.randrange(8))]
    return LinkPayload(chunks) if chunks else None


def pages(rng: random.Random, *, revisits: bool) -> list[SketchedPage]:
    """Generate pages in order of sweep and time: URLs keep, change and share documents, fail and redirect."""
    texts = [
        text for family in rng.sample(pool(), rng.randint(1, 5)) for text in rng.sample(family, rng.randint(1, 8))
    ]
    urls = [f"https://{rng.choice('ab')}.example.org/p {n}" for n in range(rng.randint(2, 14))]
    current_texts: dict[str, Text] = {}
    result = []
    for number in range(rng.randint(4, 40)):
        url, time = rng.choice(urls), 1_000 * (number + 1)
        sweep = 1 + number // 14
        draw = rng.random()
        if draw < 0.1:
            result.append(SketchedPage(capture=capture(url, sweep, time, rng.choice([301, 404, 500]))))
        elif draw < 0.25 and revisits and url in current_texts:
            other = f"{url}/copy" if rng.random() < 0.4 else url
            result.append(SketchedPage(capture=capture(other, sweep, time, 200), original_key=url_key(url)))
        else:
            if url not in current_texts or draw < 0.7:
                current_texts[url] = rng.choice(texts)
            spelling = url.replace(" ", rng.choice(SPELLINGS))
            text = current_texts[url]
            links = _links(url_key(spelling), text.text)
            result.append(page(spelling, sweep, time, text, title=rng.choice("ab"), links=links))
    return result


def decisions(rng: random.Random) -> list[Decision]:
    """Generate decisions about a few URLs, also several at the same time."""
    result = []
    for _ in range(rng.randint(0, 12)):
        url, kind = f"https://a.example.org/p{rng.randrange(4)}", rng.choice(list(DecisionKind))
        new_url = f"{url}/{rng.randrange(3)}" if kind is DecisionKind.MOVED else None
        result.append(Decision(key=url_key(url), kind=kind, time=rng.randrange(1, 6), old_url=url, new_url=new_url))
    return result


def page(url: str, sweep: int, time: int, text: Text, *, title: str, links: LinkPayload | None) -> SketchedPage:
    """Return a page that was fetched with success. Pages with the same text and title have the same bytes."""
    document_id, key = text.payload.document, url_key(url)
    raw_fingerprint = document_id[:7] + title.encode()
    payload = msgspec.structs.replace(
        text.payload,
        row=document_row.with_first_seen(text.payload.row, time),
        text=TEXTS.encode(title, text.text, time, raw_fingerprint),
    )
    page_capture = msgspec.structs.replace(
        capture(url, sweep, time, 200),
        document=document_id,
        raw_fingerprint=raw_fingerprint,
        links=link_list.compute_list_id(list(map(link_chunk.compute_chunk_id, links.chunks))) if links else b"",
    )
    words = word_entries(key, url, SKETCHER.words_and_counts(text.text)[0][:2], SKETCHER)
    return SketchedPage(capture=page_capture, payload=payload, words=words, links=links)


def capture(url: str, sweep: int, time: int, status: int) -> Capture:
    """Return the capture of a response without a document."""
    redirect = f"{url}/moved" if status == 301 else None
    return Capture(
        key=url_key(url),
        url=url,
        sweep=sweep,
        time=time,
        status=status,
        document=None,
        raw_fingerprint=b"",
        redirect=redirect,
    )
