"""gather: candidate pairs of many buckets become requests to verify the best candidates."""

from __future__ import annotations

from streams.operators.gather import gather
from streams.operators.messages import CandidatePair, VerifyRequest

X, Y = b"X" * 16, b"Y" * 16
ROWS = {X: b"row of x"}


def test_collisions_are_summed_and_the_best_candidates_are_requested() -> None:
    counts = [(b"aaaaa", 1), (b"bbbbb", 2), (b"aaaaa", 3), (b"ccccc", 2)]
    requests, dropped = gather([CandidatePair(X, prefix, count) for prefix, count in counts], ROWS, 2)
    assert requests == [
        VerifyRequest(document=X, row=ROWS[X], prefix=b"aaaaa"),
        VerifyRequest(document=X, row=ROWS[X], prefix=b"bbbbb"),
    ]
    assert dropped == 1


def test_a_deleted_document_requests_nothing() -> None:
    assert gather([CandidatePair(Y, b"aaaaa", 9)], ROWS, 2) == ([], 0)


def test_a_request_names_the_page_that_results_report() -> None:
    (request,), _ = gather([CandidatePair(X, b"aaaaa", 1)], ROWS, 2, lambda _: (b"org,a)/", 7))
    assert request.key == b"org,a)/"
    assert request.time == 7
