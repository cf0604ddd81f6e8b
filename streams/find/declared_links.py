"""Read where the last captures of a dead URL say that its page is: in a canonical link, a script or an alternate.

These statements are weaker than a redirect. A canonical link of many pages to one URL, as an error in a template
writes it, says hardly anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from state.model import Capture, LinkKind
from state.view import View

# How much each kind says for its target, from 0 to 1.
STRENGTHS: Mapping[LinkKind, float] = {
    LinkKind.REFRESH: 0.8,
    LinkKind.SCRIPT: 0.7,
    LinkKind.CANONICAL: 0.6,
    LinkKind.ALTERNATE: 0.05,  # a translation is not the new home of a page
}
_SHARED_FACTOR = 0.1  # for a target that many pages declare
_TARGETS_MAX = 8  # per URL
_CHUNKS_READ_MAX = 64


def declared_targets(
    view: View, captures: Iterable[Capture], shared_from: int
) -> dict[bytes, tuple[LinkKind, float]]:
    """Return the URLs to which captures of one URL refer, by URL key, each with the strongest kind and its strength.

    A target to which at least `shared_from` other pages refer in this way is weak.
    """
    lists = view.link_lists({(capture.key, capture.links) for capture in captures if capture.links})
    if not lists:
        return {}
    key = next(iter(lists))[0]
    chunks = view.link_chunks(set(chain.from_iterable(lists.values())))
    kinds: dict[bytes, LinkKind] = {}
    for link in chain.from_iterable(chunks.values()):
        strength = STRENGTHS.get(link.kind)
        if strength is None or link.target == key:
            continue
        if link.target not in kinds or strength > STRENGTHS[kinds[link.target]]:
            kinds[link.target] = link.kind
    by_strength = sorted(kinds, key=lambda target: (-STRENGTHS[kinds[target]], target))[:_TARGETS_MAX]
    return {
        target: (
            kinds[target],
            STRENGTHS[kinds[target]]
            * (_SHARED_FACTOR if _is_shared(view, target, kinds[target], shared_from) else 1),
        )
        for target in by_strength
    }


def _is_shared(view: View, target: bytes, kind: LinkKind, shared_from: int) -> bool:
    """Whether many pages declare the same target."""
    (prefixes,) = view.chunk_prefixes([target], _CHUNKS_READ_MAX)
    chunks = view.link_chunks_by_prefixes(prefixes)
    declaring = [id_ for id_, links in chunks.items() if any(x.target == target and x.kind is kind for x in links)]
    pages = set(chain.from_iterable(view.chunk_pages(declaring, shared_from + 1))) - {target}
    return len(pages) >= shared_from
