"""Tables of `lostfound find`: one answer with all its candidates, or many with the best of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from streams.terminal.escape import escape_text, pluralise
from streams.terminal.layout import BlockTable, Row, format_share, unbreakable

if TYPE_CHECKING:
    from streams.find.answer import Answer, Candidate

CONFIDENCE_SHOWN_MIN = 0.05  # candidates below are counted, not listed; --json lists all
RESEMBLANCE_SHOWN_MIN = 0.1  # in a line of evidence

# What each kind of evidence says; its figure and detail follow.
REASONS = {
    "redirect": "redirects there",
    "redirect_of_many": "redirects there, as many other URLs do",
    "suspected_soft_404": "serves an error page",
    "target_missing": "redirect target is missing too",
    "not_captured": "redirect target was never captured",
    "stop": "via a missing URL",
    "folded_in": "contains the old page",
    "words": "similar words",
    "appeared": "new when the old page vanished",
    "stood_beside": "existed beside the old page",
    "copied_tree": "part of a copied tree",
    "path": "similar path",
    "rule": "rewrite rule",
    "same_domain": "same domain",
    "other_domain": "other domain",
}
_OBSERVED = {"redirect", "redirect_of_many"}  # the crawler saw these at the URL itself, so they are always shown
_SOFT_404 = "now serves the same page as many unrelated URLs of its host: probably an error page"
_STATUS_STYLES = {"alive": "green", "moved": "bold green", "gone": "red", "unknown": "dim"}


def evidence_line(candidate: Candidate, *, details: bool = False) -> Text:
    """Return a candidate's evidence in one line; with `details`, also the rewrite rules and URLs that it names."""
    parts = []
    resemblance = candidate.resemblance
    if not details and resemblance is not None and resemblance >= RESEMBLANCE_SHOWN_MIN:
        parts.append(f"resemblance {resemblance:.2f}")
    for evidence in candidate.evidence:
        if evidence.kind == "same_host":  # the normal case
            continue
        words = [REASONS.get(evidence.kind, evidence.kind)]
        if evidence.value is not None:
            words.append(f"{evidence.value:.2f}")
        if details and evidence.detail and evidence.kind in {"rule", "stop"}:
            words.append(escape_text(evidence.detail))
        parts.append(" ".join(words))
    return Text(" · ".join(parts), style="dim")


def answer_table(answer: Answer) -> RenderableType:
    """Show one answer with its likelier candidates and their evidence."""
    last_seen = f", last seen {answer.last_seen[:10]}" if answer.last_seen else ""
    status = (answer.status, _STATUS_STYLES[answer.status])
    parts: list[RenderableType] = [unbreakable(Text.assemble(escape_text(answer.url), "  ", status, last_seen))]
    if _serves_soft_404(answer):
        parts.append(Text(f"  {_SOFT_404}", style="yellow"))
    candidates = [candidate for candidate in answer.candidates if not _is_soft_404(candidate)]
    shown = [candidate for candidate in candidates if _is_shown(candidate)] or candidates[:1]

    def row(candidate: Candidate) -> Row:
        figures = map(format_share, (candidate.confidence, candidate.resemblance, candidate.containment))
        url = Text(escape_text(candidate.url), style="bold")
        return (*figures, (candidate.first_seen or "")[:10], url), [evidence_line(candidate, details=True)]

    if shown:
        columns = (">confidence", ">resemblance", ">containment", "first seen", "candidate")
        parts += [Text(), BlockTable(columns, map(row, shown))]
    if remaining := len(candidates) - len(shown):
        parts.append(Text(pluralise(remaining, "less likely candidate"), style="dim"))
    return Group(*parts)


def answers_table(answers: Sequence[Answer]) -> RenderableType:
    """List answers; a moved page has its best candidate below."""

    def row(answer: Answer) -> Row:
        below = [Text(_SOFT_404, style="yellow")] if _serves_soft_404(answer) else []
        best = answer.candidates[0] if answer.status == "moved" else None
        if best is not None:
            below += [unbreakable(Text(f"→ {escape_text(best.url)}", style="bold")), evidence_line(best)]
        status = Text(answer.status, style=_STATUS_STYLES[answer.status])
        return (status, format_share(best.confidence if best else None), escape_text(answer.url)), below

    return BlockTable(("status", ">confidence", "url"), map(row, answers))


def _evidence_kinds(candidate: Candidate) -> set[str]:
    return {evidence.kind for evidence in candidate.evidence}


def _is_shown(candidate: Candidate) -> bool:
    return candidate.confidence >= CONFIDENCE_SHOWN_MIN or bool(_evidence_kinds(candidate) & _OBSERVED)


def _is_soft_404(candidate: Candidate) -> bool:
    """Return whether this is the missing URL itself, serving an error page.

    A redirect target that serves an error page has `redirect` evidence as well.
    """
    return _evidence_kinds(candidate) == {"suspected_soft_404"}


def _serves_soft_404(answer: Answer) -> bool:
    return any(map(_is_soft_404, answer.candidates))
