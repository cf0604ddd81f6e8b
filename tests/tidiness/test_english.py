"""Plain English: local names and phrases that readers stumbled over stay out of the code and the documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for folder in ("streams", "state", "bench") for path in (ROOT / folder).rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "config" / "lostfound.toml"])

# Names after what was done to a value, not after what it is.
NAMES = {"held", "found", "said", "told", "each", "there", "most", "place", "asked", "kept"}
# The field's word exists: (phrase, what to write instead).
PHRASES = {
    r"(?<![Tt]here )\b(is|are|was|were|be) (no|none)\b(?! (longer|more))": "has no ..., is not a ...",
    r"\b([Ww]hoever|[Ww]hom|[Nn]obody)\b": "a noun",
    r"\bwhat is (kept|held|said|asked|known|none|told)\b": "a noun",
    r"\bof which (one|some)\b": "a sentence of its own",
    r"\bthe (held|found|said|asked|kept|told)\b": "a noun",
    r"\bunder way\b": "in flight, in progress",
    r"\b(go|goes|going|went) on\b": "continue, resume",
    r"\b(is|are|be|was) told\b": "receive, report",
    r"\bwon from\b": "extracted from",
    r"\blimits? bit\b": "a limit was reached",
    r"\bnot to be (seen|told|found|said)\b": "cannot be ...",
    r"\b(those who|that is none)\b": "a noun",
    r"\bmend(s|ed|ing)?\b": "repair, fix",
    r"\blet(s)? go\b": "close, release",
    r"\b(anew|once more|in vain)\b": "again",
    r"\bhanded in\b": "supplied",
}
BANNED = re.compile("|".join(f"({phrase})" for phrase in PHRASES))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def stored_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that is assigned, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


@pytest.mark.parametrize("path", MODULES + TESTS, ids=name_of)
def test_names_say_what_a_value_is(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bad = [f"line {line}: {name}" for line, name in stored_names(tree) if name.strip("_") in NAMES]
    assert not bad, "name it after what it contains"


@pytest.mark.parametrize("path", MODULES + TESTS + PAGES, ids=name_of)
def test_sentences_use_the_terms_of_the_field(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    bad = [f"line {number}: {line.strip()}" for number, line in enumerate(lines, 1) if BANNED.search(line)]
    assert not bad, "write it as PHRASES suggests"


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The constant beginnings and ends of error messages: the first two arguments of `raise SomeError(...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.lineno, argument.value
                elif isinstance(argument, ast.JoinedStr) and argument.values:
                    first, last = argument.values[0], argument.values[-1]
                    start = str(first.value) if isinstance(first, ast.Constant) else "x"
                    end = str(last.value) if isinstance(last, ast.Constant) else "x"
                    yield argument.lineno, f"{start} {end}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_messages_share_one_style(path: Path) -> None:
    """Lower case (but for names such as TLS or UTF-8) and no full stop."""
    bad = [
        f"line {line}: {text}"
        for line, text in messages(ast.parse(path.read_text(encoding="utf-8")))
        if text.endswith(".") or re.match(r"[A-Z][a-z]+ ", text)
    ]
    assert not bad
