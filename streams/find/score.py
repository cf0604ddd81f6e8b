"""The score that ranks candidates, and the confidence of an answer. docs/decisions/ranking.md has the reasons.

    score = (weighted containment + cosine + 0.1 title) x (1 - 0.85 coexisted) + 1.2 path + 0.05 appeared
            + 0.5 url_variant - 1.5 copied_tree + 0.4 rule

`coexisted` is the resemblance of the old page and the candidate while the old URL was alive, because a page does not
move to a copy that already exists. `copied_tree` is the share of living pages near the old page that have a copy at
the same relative path near the candidate. If the whole old tree is gone, the share of its missing pages whose
documents are in the candidate's tree is used. In the score, `copied_tree` is 1 if the share is above one half, and 0
otherwise. `path` is 0 for the old page's counterpart in a parallel tree, such as a translation. `url_variant` marks a
new form of the old URL, such as `/x/` for `/x.html`, that appeared when the old URL went missing: a page that became
a folder keeps its URL in this form, even if other pages received its text.

If texts are not stored, the cosine is missing, and sketches supply the other figures:

    score = 1.6 containment x (1 - 0.85 coexisted) + 1.6 path + ...

The confidence is a logistic function of five figures: the score, the margin to the second-best score as a share of
the score, whether the candidate appeared when the old URL went missing, whether it has almost none of the old
content, and whether it is in a copied tree. The second-best score is at least 0.2, as not all pages were compared.
"""

from __future__ import annotations

import math
from typing import NamedTuple

COEXISTED, PATH, TITLE, APPEARED = 0.85, 1.2, 0.1, 0.05
URL_VARIANT, COPIED_TREE, RULE = 0.5, 1.5, 0.4
SKETCH_CONTAINMENT, SKETCH_PATH = 1.6, 1.6
CONTAINMENT_SPREAD = 0.2  # prior standard deviation of candidates' containments, around 0
COPIED_TREE_ABOVE = 0.5  # with a greater share of copied neighbours, a candidate is in a copied tree
MIRRORED_MIN = 0.5  # share of a candidate's neighbours that have a living counterpart near the old page
MIRRORED_CONTENT_MAX = 0.5  # a candidate with more of the old text is not just a counterpart
FROZEN_MIN = 0.8  # share of the pages missing with the old page whose documents are near a candidate
# A candidate that appeared elsewhere with this resemblance or more shows that an identical candidate is a copy.
NEW_HOME_RESEMBLANCE_MIN = 0.4
HOP_WEIGHT = 0.8  # weight of the score from the next hop; the direct score has the remaining weight
HOP_CONFIDENCE_MIN = 0.15
HOPS_MAX = 4
UNVISITED_HOST_SCORE_MIN = 1.2  # a page on a host that is no longer visited moved only if a new URL scores this much
REDIRECT_CONFIDENCE, DOUBTFUL_REDIRECT_CONFIDENCE, REDIRECT_CONTENT_MIN = 0.97, 0.45, 0.25


class Traits(NamedTuple):
    """The figures of one candidate for one dead URL; all numbers are from 0 to 1."""

    resemblance: float = 0.0
    containment: float = 0.0  # all shingles weigh the same; shown in answers
    weighted_containment: float = 0.0  # mean of `containment` and the containment weighted by rarity
    cosine: float | None = None  # None: the old text is not stored
    title: float = 0.0
    coexisted: float = 0.0
    path: float = 0.0
    appeared: bool = False
    url_variant: bool = False
    copied_tree: float = 0.0
    rule: float = 0.0  # confidence of the rewrite rule that predicts this URL

    @property
    def is_copied(self) -> bool:
        return self.copied_tree > COPIED_TREE_ABOVE


# Coefficients of the confidence: constant, score, margin, appeared, low content.
WITH_TEXTS = (-3.8, 2.05, 3.4, 0.1, -1.1)
FROM_SKETCHES = (-3.9, 1.6, 3.7, 1.0, -0.8)
COPIED_TREE_LOGIT = 2.0  # subtracted from the logit of a candidate in a copied tree
SECOND_SCORE_MIN, LOW_CONTENT = 0.2, 0.1


def shrunk_containment(containment: float, error: float) -> float:
    """Shrink an estimated containment towards 0 by its standard error, because most candidates contain little."""
    return containment / (1 + (error / CONTAINMENT_SPREAD) ** 2)


def score(traits: Traits) -> float:
    if traits.cosine is None:
        content, path = SKETCH_CONTAINMENT * traits.containment, SKETCH_PATH
    else:
        content, path = traits.weighted_containment + traits.cosine + TITLE * traits.title, PATH
    return (
        content * (1 - COEXISTED * traits.coexisted)
        + path * traits.path
        + APPEARED * traits.appeared
        + URL_VARIANT * traits.url_variant
        - COPIED_TREE * traits.is_copied
        + RULE * traits.rule
    )


def confidence(best: float, second: float, traits: Traits) -> float:
    """Return the probability that the best candidate is right, given its traits and the second-best score."""
    constant, by_score, by_margin, by_appeared, by_low = WITH_TEXTS if traits.cosine is not None else FROM_SKETCHES
    margin = min(1.0, max(0.0, (best - max(second, SECOND_SCORE_MIN)) / max(best, SECOND_SCORE_MIN)))
    has_low_content = max(traits.containment, traits.cosine or 0.0) < LOW_CONTENT
    logit = constant + by_score * best + by_margin * margin
    logit += by_appeared * traits.appeared + by_low * has_low_content - COPIED_TREE_LOGIT * traits.is_copied
    return 1 / (1 + math.exp(-logit))


def is_doubtful_redirect(traits: Traits) -> bool:
    """Whether neither content nor path supports the target of a redirect."""
    return max(traits.containment, traits.cosine or 0.0, traits.path) < REDIRECT_CONTENT_MIN
