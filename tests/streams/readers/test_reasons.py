"""The reasons are a contract: the docs, the table in the code, and the code that rejects pages agree."""

from __future__ import annotations

import re
from pathlib import Path

from streams.page import REJECTION_REASONS
from streams.readers.read_limits import ReadLimits

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "formats-input.md").read_text()
USED_IN = ["streams/page.py", "streams/readers/*.py", "streams/operators/*.py", "streams/sketch/extract.py"]
SOURCES = "".join(path.read_text() for pattern in USED_IN for path in ROOT.glob(pattern))


def test_the_docs_have_the_table_of_the_code():
    table = DOC.split("| reason | meaning |")[1].split("\n\n")[0]
    assert dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)) == REJECTION_REASONS


def test_every_reason_is_used():
    for reason in REJECTION_REASONS:
        assert SOURCES.count(f'"{reason}"') >= 2, reason


def test_no_other_reason_is_used():
    reasons = re.findall(r'\b(?:Rejected|ContentError|TextError|report)\(\s*"(\w+)"', SOURCES)
    assert len(reasons) > 30
    assert set(reasons) <= set(REJECTION_REASONS)


def test_the_docs_have_every_limit():
    assert set(re.findall(r"^\| `(\w+_max)`", DOC, re.MULTILINE)) == set(ReadLimits.__struct_fields__) - {
        "warc_folder"
    }


def test_the_docs_have_every_field():
    from streams.readers.page_line import PageLine

    named = DOC.split("## JSONL")[1].split("## Dead letters")[0]
    assert set(PageLine.__struct_fields__) <= set(re.findall(r"`(\w+)`", named))
