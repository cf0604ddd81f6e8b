"""The ranking, and how sure an answer is. docs/decisions tells how both came about.

    score = (containment + cosine + 0.1 title) x (1 - 0.85 beside) + 1.2 path + 0.05 appeared
            + 0.5 respelt - 1.5 replica + 0.4 rule

`beside` is the resemblance to what the candidate held while the old URL was alive: a copy that stood there all along
is not where the page went. `replica` says that most pages around the old one, which are still alive, have a copy at
the place where this candidate would be the old one's: then it belongs to a copied tree, not to a move. Of a candidate
at the same place in a tree that stands beside the old one's, as translations do, `path` counts nothing. Where a whole
tree went and its documents lie elsewhere at once, that is a copy only if the page is found changed in another place,
and `replica` is the share of them. `respelt` is
the old address in another spelling, `/x/` for `/x.html`, that came when the old one went: a page that became a folder
keeps its place, whatever its text was shared out to.

Where texts are not kept there are no cosines, and sketches give the rest:

    score = 1.6 containment x (1 - 0.85 beside) + 1.6 path + ...

A sketch says next to nothing of a short page in a long one: estimates of 1 with an error of .9 are common, and
ranking looks for the greatest of many. So a containment counts by what is to be believed of it, given its error.

The confidence is logistic in five figures that a person can check: the score, how far the second candidate lies
behind (by share of the score; a second of 0.2 is always assumed, as not all pages were looked at), whether the
candidate appeared when the old URL went missing, whether next to none of its content was there before, and whether
it lies in a copied tree. The first four were fitted on twelve documentation sites with their variants (frozen old
versions, templates, hashed URLs), each weighed by the root of its rows, and checked on sites left out of the fit; the
last was chosen on four further sites with frozen trees.
"""

from __future__ import annotations

import math
from typing import NamedTuple

BESIDE = 0.85
PATH = 1.2
TITLE = 0.1
APPEARED = 0.05
RESPELT = 0.5
REPLICA = 1.5
RULE = 0.4
SKETCH_CONTAINMENT, SKETCH_PATH = 1.6, 1.6
CONTAINMENT_SPREAD = 0.2  # of candidates' containments about 0, before a sketch is read
REPLICA_FROM = 0.5
MIRRORED_FROM = 0.5  # of the pages beside a candidate that have a living counterpart beside the old one
MIRROR_CONTENT_MAX = 0.5  # what shares more of its text is not only at the same place
FROZEN_FROM = 0.8  # of the pages that went missing with the old one, whose documents lie beside a candidate
ANOTHER_FROM = 0.4  # resemblance of a candidate that appeared elsewhere: then the tree of the first one is a copy

# Where the page went by way of a URL that is dead too: weights of the direct score and of that from the last stop.
CHAIN = 0.8
CHAIN_CONFIDENCE_MIN = 0.15
HOPS_MAX = 4
LEFT_BEHIND_MIN = 1.2  # a host that is no longer visited is left only for what is very much like it
STUB_SHARE = 0.4  # a last version shorter than this share of the longest is a stub: the longest is asked

REDIRECT_CONFIDENCE = 0.97
REDIRECT_DOUBTED = 0.45
REDIRECT_CONTENT_MIN = 0.25


class Traits(NamedTuple):
    """What is known of one candidate for one old URL; shares from 0 to 1."""

    resemblance: float = 0.0
    containment: float = 0.0  # all shingles alike, as it is shown
    weighed: float = 0.0  # the mean of `containment` and containment by rarity
    cosine: float | None = None  # None: no texts
    title: float = 0.0
    beside: float = 0.0
    path: float = 0.0
    appeared: bool = False
    url_variant: bool = False  # the old address spelt otherwise, and appeared
    replica: float = 0.0  # share of living neighbours with a copy there
    rule: float = 0.0  # confidence of the rule that leads here


class Weights(NamedTuple):
    """Coefficients of the confidence: constant, score, relative margin, appeared, thin."""

    constant: float
    score: float
    margin: float
    appeared: float
    thin: float


WITH_TEXTS = Weights(-3.8, 2.05, 3.4, 0.1, -1.1)
FROM_SKETCHES = Weights(-3.9, 1.6, 3.7, 1.0, -0.8)
COPIED = 2.0  # off the logit of a candidate in a copied tree
SECOND_LEAST = 0.2
THIN = 0.1  # less content than this in common is next to none


def believed(share: float, error: float) -> float:
    """What is to be believed of a containment estimated with a standard error: most candidates contain little."""
    return share / (1 + (error / CONTAINMENT_SPREAD) ** 2)


def score(traits: Traits) -> float:
    """How good a candidate is, for ranking candidates of one old URL."""
    if traits.cosine is None:
        content, path = SKETCH_CONTAINMENT * traits.containment, SKETCH_PATH
    else:
        content, path = traits.weighed + traits.cosine + TITLE * traits.title, PATH
    return (
        content * (1 - BESIDE * traits.beside)
        + path * traits.path
        + APPEARED * traits.appeared
        + RESPELT * traits.url_variant
        - REPLICA * (traits.replica > REPLICA_FROM)
        + RULE * traits.rule
    )


def confidence(best: float, second: float, traits: Traits) -> float:
    """The share of answers like this one that are right: `traits` of the best, and the two best scores."""
    weights = WITH_TEXTS if traits.cosine is not None else FROM_SKETCHES
    margin = min(1.0, max(0.0, (best - max(second, SECOND_LEAST)) / max(best, SECOND_LEAST)))
    thin = max(traits.containment, traits.cosine or 0.0) < THIN
    z = weights.constant + weights.score * best + weights.margin * margin
    z += weights.appeared * traits.appeared + weights.thin * thin - COPIED * (traits.replica > REPLICA_FROM)
    return 1 / (1 + math.exp(-z))


def doubtful_redirect(traits: Traits) -> bool:
    """Nothing but a redirect speaks for this candidate: neither its content nor its path."""
    return max(traits.containment, traits.cosine or 0.0, traits.path) < REDIRECT_CONTENT_MIN
