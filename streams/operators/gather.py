"""gather: merges the candidate pairs of all buckets, and requests the verification of the best candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from streams.operators.messages import CandidatePair, VerifyRequest


def gather(
    pairs: Sequence[CandidatePair],
    rows: Mapping[bytes, bytes],
    candidates_max: int,
    find_location: Callable[[bytes], tuple[bytes, int]] | None = None,
) -> tuple[list[VerifyRequest], int]:
    """Return the requests to verify the best candidates of each document, and how many candidates were dropped.

    The best candidates have the most collisions; ties go to the smaller prefix. `rows` contains the documents' rows.
    A document without a row has been deleted and is skipped. `find_location` returns the URL key and time (ms) of a
    page with the document. It is needed only if result topics are enabled.
    """
    collisions: dict[bytes, Counter[bytes]] = {}
    for pair in pairs:
        if pair.document in rows:
            collisions.setdefault(pair.document, Counter())[pair.prefix] += pair.collisions
    requests: list[VerifyRequest] = []
    candidate_count = 0
    for document, counts in collisions.items():
        key, time = find_location(document) if find_location is not None else (b"", 0)
        requests.extend(
            VerifyRequest(document=document, row=rows[document], prefix=prefix, key=key, time=time)
            for prefix in sorted(counts, key=lambda prefix: (-counts[prefix], prefix))[:candidates_max]
        )
        candidate_count += len(counts)
    return requests, candidate_count - len(requests)
