"""gather: merges the candidate pairs of all buckets, and asks the owners of the best candidates to verify them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from streams.operators.messages import CandidatePair, VerifyRequest


def no_page(_document: bytes) -> tuple[bytes, int]:
    """Name no page, where results do not report one."""
    return b"", 0


def gather(
    pairs: Sequence[CandidatePair],
    rows: Mapping[bytes, bytes],
    candidates_max: int,
    page_of: Callable[[bytes], tuple[bytes, int]] = no_page,
) -> tuple[list[VerifyRequest], int]:
    """Return the requests for the best candidates of each document, and how many candidates were dropped.

    The best candidates of a document have the most collisions, ties by prefix. `rows` are the documents' rows; a
    document without a row has been deleted since, and is skipped. `page_of` returns the URL key and the time (ms) of
    a page of the document, for results.
    """
    collisions: dict[bytes, Counter[bytes]] = {}
    for pair in pairs:
        collisions.setdefault(pair.document, Counter())[pair.prefix] += pair.collisions
    requests: list[VerifyRequest] = []
    candidates_dropped = 0
    for document, counts in collisions.items():
        if document not in rows:
            continue
        ranked = sorted(counts, key=lambda prefix: (-counts[prefix], prefix))
        candidates_dropped += len(ranked[candidates_max:])
        key, time = page_of(document)
        requests.extend(
            VerifyRequest(document=document, row=rows[document], prefix=prefix, key=key, time=time)
            for prefix in ranked[:candidates_max]
        )
    return requests, candidates_dropped
