"""Scores and confidences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.find import score as scoring
from streams.find.score import Traits


def test_confidence_grows_with_score_and_margin():
    def sure(best: float, second: float) -> float:
        return scoring.confidence(best, second, Traits(containment=0.5, cosine=0.5, appeared=True))

    assert sure(2.0, 0.2) > sure(2.0, 1.8) > sure(1.0, 0.9)
    assert sure(0.0, 0.0) < 0.2
    low_content = scoring.confidence(2.0, 0.2, Traits(appeared=True))
    assert low_content < scoring.confidence(2.0, 0.2, Traits(containment=0.5, appeared=True))


def test_a_doubtful_hop_lowers_the_confidence_and_a_sure_hop_makes_up_for_the_lower_score():
    traits = Traits(containment=0.5, cosine=0.5)
    doubtful, direct, sure = (scoring.confidence(1.2, 0.9, traits, hops) for hops in ([0.1], [], [0.9]))
    assert doubtful < direct < sure


def test_a_single_candidate_with_little_in_common_is_not_sure():
    """Not all pages were compared: the lack of another candidate says little."""
    traits = Traits(containment=0.0, cosine=0.05, appeared=True)
    assert scoring.confidence(0.3, 0.0, traits) == scoring.confidence(0.3, scoring.SECOND_SCORE_MIN, traits) < 0.5


def test_a_copied_tree_lowers_the_confidence_more_than_the_score():
    traits = Traits(containment=0.8, weighted_containment=0.8, cosine=0.8, path=1.0)
    copied = traits._replace(copied_tree=0.9)
    assert scoring.confidence(scoring.score(traits), 0.0, traits) > 0.9
    assert scoring.confidence(scoring.score(copied), 0.0, copied) < 0.5
    assert scoring.confidence(2.0, 0.0, copied) < scoring.confidence(2.0, 0.0, traits)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 2), st.floats(0, 2))
def test_a_containment_is_shrunk_by_its_error(share, other, error, larger):
    assert scoring.shrunk_containment(share, 0.0) == share
    assert (
        0.0
        <= scoring.shrunk_containment(share, max(error, larger))
        <= scoring.shrunk_containment(share, min(error, larger))
        <= share
    )
    low, high = sorted((share, other))
    assert scoring.shrunk_containment(low, error) <= scoring.shrunk_containment(high, error)


@given(st.floats(-2, 4), st.floats(-2, 4), st.booleans())
def test_confidence_is_a_probability(best, second, appeared):
    assert 0.0 < scoring.confidence(best, second, Traits(appeared=appeared)) < 1.0


def test_traits_raise_or_lower_the_score():
    plain = Traits(containment=0.5, weighted_containment=0.5, cosine=0.5)
    assert scoring.score(plain._replace(coexisted=0.9)) < scoring.score(plain)
    assert scoring.score(plain._replace(copied_tree=0.9)) < scoring.score(plain)
    assert scoring.score(plain._replace(path=0.9)) > scoring.score(plain)
    assert scoring.score(plain._replace(rule=0.9)) > scoring.score(plain)
    assert scoring.score(plain._replace(cosine=None)) < scoring.score(plain)
