"""The score that ranks candidates, and the confidence of an answer. docs/decisions/ranking.md has the reasons.

    score = (weighted containment + cosine + 0.1 title) x (1 - 0.85 coexisted) + 1.2 path + 0.05 appeared
            + 0.5 url_variant - 2.5 copied_tree + 0.4 rule + link + declared

`coexisted` is the resemblance of the old page and the candidate while the old URL was alive. It lowers the score,
because a page does not move to a copy that already exists. `copied_tree` is the share of living pages near the old
page that have a copy at the same relative path near the candidate. If too few living pages are left, it is 1 if the
candidate has the old page's path under a different version number and the old tree is still alive, otherwise 0. If
rewrite rules lead to a different tree, `copied_tree` is their confidence. In the score, `copied_tree` is 1 if this
value is above one half, and 0 otherwise. `path` is the similarity of the two paths, but 0 for the old page's
counterpart in a parallel tree, such as a translation. `url_variant` marks a new form of the old URL, such as `/x/`
for `/x.html`, that appeared when the old URL went missing: when a page is turned into a folder, this form of its URL
is its new home, even if its text went to other pages.

`link` is the strength of link substitutions: pages that linked to the old URL link to the candidate now, with the
same anchor. `declared` is the strength of the old page's own declaration, for example in a canonical link.

If texts are not stored, the cosine is missing, and sketches supply the other figures:

    score = 1.6 containment x (1 - 0.85 coexisted) + 1.6 path + ...

The confidence is a logistic function of four figures: the score, the margin to the second-best score as a share of
the score, the confidences of the hops, and whether the candidate is in a copied tree. Without texts, it also depends
on whether the candidate appeared when the old URL went missing, and whether it has almost none of the old content. A
second-best score below 0.2 is raised to 0.2, because not all pages were compared. Behind hops, scores are lower,
because part of a score is the low score from the first URL. To compensate for this, sure hops raise the confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

# Weights of the traits in the score.
COEXISTED_WEIGHT, PATH_WEIGHT, TITLE_WEIGHT, APPEARED_WEIGHT = 0.85, 1.2, 0.1, 0.05
URL_VARIANT_WEIGHT, COPIED_TREE_WEIGHT, RULE_WEIGHT = 0.5, 2.5, 0.4
LINK_WEIGHT, DECLARED_WEIGHT = 1.0, 1.0
STRONG_LINKS_MIN = 0.75  # a candidate with links of at least this strength needs no content of the old page
SKETCH_CONTAINMENT_WEIGHT, SKETCH_PATH_WEIGHT = 1.6, 1.6
PRIOR_CONTAINMENT_DEVIATION = 0.2  # assumed standard deviation of candidates' true containments around 0
COPIED_TREE_ABOVE = 0.5  # a candidate with a greater `copied_tree` is in a copied tree
MIRRORED_MIN = 0.5  # share of a candidate's neighbours that have a living counterpart near the old page
MIRRORED_CONTENT_MAX = 0.5  # a candidate with more of the old text is not just a counterpart
HOP_WEIGHT = 0.8  # weight of the score from a hop; the score from the old URL has the remaining weight
HOP_CONFIDENCE_MIN = 0.08
HOPS_MAX = 4
REDIRECT_CONFIDENCE, DOUBTFUL_REDIRECT_CONFIDENCE, REDIRECT_SUPPORT_MIN = 0.97, 0.45, 0.25


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
    link: float = 0.0  # strength of the link substitutions that lead to this URL
    declared: float = 0.0  # strength of the old page's own declaration of this URL

    @property
    def is_copied(self) -> bool:
        return self.copied_tree > COPIED_TREE_ABOVE

    @property
    def has_strong_links(self) -> bool:
        return max(self.link, self.declared) >= STRONG_LINKS_MIN


# Coefficients of the confidence: constant, score, margin, appeared, low content, per hop, log of a hop's confidence.
CONFIDENCE_WITH_TEXTS = (-4.3, 1.95, 4.25, 0.0, 0.0, 2.0, 1.2)
CONFIDENCE_FROM_SKETCHES = (-3.9, 1.6, 3.7, 1.0, -0.8, 0.0, 1.0)
COPIED_TREE_LOGIT = 2.0  # subtracted from the logit of a candidate in a copied tree
SECOND_SCORE_MIN, LOW_CONTENT_BELOW = 0.2, 0.1
# If the path is the only evidence, and the candidate has less of the old content than this, its confidence is capped.
PATH_ALONE_CONTENT_MAX, PATH_ALONE_CONFIDENCE_MAX = 0.2, 0.45


def shrunk_containment(containment: float, error: float) -> float:
    """Shrink an estimated containment towards 0 according to its standard error.

    Most candidates contain little of the old page, so a high but uncertain estimate is probably too high.
    """
    return containment / (1 + (error / PRIOR_CONTAINMENT_DEVIATION) ** 2)


def score(traits: Traits) -> float:
    if traits.cosine is None:
        content, path_weight = SKETCH_CONTAINMENT_WEIGHT * traits.containment, SKETCH_PATH_WEIGHT
    else:
        content, path_weight = traits.weighted_containment + traits.cosine + TITLE_WEIGHT * traits.title, PATH_WEIGHT
    return (
        content * (1 - COEXISTED_WEIGHT * traits.coexisted)
        + path_weight * traits.path
        + APPEARED_WEIGHT * traits.appeared
        + URL_VARIANT_WEIGHT * traits.url_variant
        - COPIED_TREE_WEIGHT * traits.is_copied
        + RULE_WEIGHT * traits.rule
        + LINK_WEIGHT * traits.link
        + DECLARED_WEIGHT * traits.declared
    )


def confidence(
    best_score: float, second_score: float, traits: Traits, hop_confidences: Iterable[float] = ()
) -> float:
    """Return the probability that the best candidate is right, given its traits and the second-best score."""
    coefficients = CONFIDENCE_WITH_TEXTS if traits.cosine is not None else CONFIDENCE_FROM_SKETCHES
    constant, score_weight, margin_weight, appeared_weight, low_content_weight, hop_weight, log_weight = coefficients
    margin = min(
        1.0, max(0.0, (best_score - max(second_score, SECOND_SCORE_MIN)) / max(best_score, SECOND_SCORE_MIN))
    )
    has_low_content = (
        max(traits.containment, traits.cosine or 0.0) < LOW_CONTENT_BELOW and not traits.has_strong_links
    )
    logit = constant + score_weight * best_score + margin_weight * margin
    logit += appeared_weight * traits.appeared + low_content_weight * has_low_content
    logit -= COPIED_TREE_LOGIT * traits.is_copied
    logit += sum(hop_weight + log_weight * math.log(max(hop, 1e-3)) for hop in hop_confidences)
    return 1 / (1 + math.exp(-logit))


def is_path_the_only_evidence(traits: Traits) -> bool:
    """Return whether no texts, links or moves of other pages support a candidate; False if texts are not stored."""
    if traits.cosine is None or traits.rule > 0 or traits.url_variant or traits.has_strong_links:
        return False
    return max(traits.containment, traits.cosine) < PATH_ALONE_CONTENT_MAX


def is_doubtful_redirect(traits: Traits) -> bool:
    """Return whether neither content nor path supports the target of a redirect."""
    return max(traits.containment, traits.cosine or 0.0, traits.path, traits.link) < REDIRECT_SUPPORT_MIN
