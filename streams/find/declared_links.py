"""Read the new URLs that the last captures of a dead URL declare: in a canonical link, a script or an alternate link.

Such a declaration is weaker evidence than a redirect. If many pages have a canonical link to the same URL, perhaps
because of an error in a template, the link is hardly any evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from state.model import Capture, LinkKind
from state.view import View

# How strongly each kind of link supports its target, from 0 to 1.
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
    view: View, captures: Iterable[Capture], shared_pages_min: int
) -> dict[bytes, tuple[LinkKind, float]]:
    """Return the strongest kind of link to each declared target, and its strength, by the target's URL key.

    All captures are of one URL. The strength of a target is lower if at least `shared_pages_min` other pages declare
    the same target with the same kind of link.
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
    targets: dict[bytes, tuple[LinkKind, float]] = {}
    for target in by_strength:
        kind = kinds[target]
        factor = _SHARED_FACTOR if _is_shared(view, target, kind, shared_pages_min) else 1
        targets[target] = kind, STRENGTHS[kind] * factor
    return targets


def _is_shared(view: View, target: bytes, kind: LinkKind, shared_pages_min: int) -> bool:
    """Return whether at least `shared_pages_min` other pages declare a target with the same kind of link."""
    (prefixes,) = view.chunk_prefixes([target], _CHUNKS_READ_MAX)
    chunks = view.link_chunks_by_prefixes(prefixes)
    declaring_chunks = [
        id_ for id_, links in chunks.items() if any(link.target == target and link.kind is kind for link in links)
    ]
    pages = set(chain.from_iterable(view.chunk_pages(declaring_chunks, shared_pages_min + 1))) - {target}
    return len(pages) >= shared_pages_min
