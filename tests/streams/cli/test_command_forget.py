"""`lostfound forget`: delete a URL or a document."""

from __future__ import annotations

from pathlib import Path

from tests.streams.cli.conftest import SITE, Lostfound

FAQ, FAQ_MIRROR = f"{SITE}/faq.html", f"{SITE}/mirror/faq.html"


def test_forget_deletes_a_url(lostfound: Lostfound, sample_state: Path) -> None:
    expected = "deleted 3 captures and 2 documents; rebuilt the clusters of 2 other documents\n"
    assert lostfound("forget", FAQ_MIRROR).out == expected
    assert lostfound("captures", FAQ_MIRROR).code == 1
    assert lostfound("captures", FAQ).code == 0
    assert lostfound("state", "check").code == 0
    assert lostfound("forget", FAQ_MIRROR).code == 1


def test_forget_deletes_a_document(lostfound: Lostfound, sample_state: Path) -> None:
    (row,) = lostfound("cluster", FAQ, "--json").rows
    assert lostfound("forget", row["asked"], "--json").rows[0]["documents"] == 1
    assert lostfound("cluster", row["asked"]).code == 1
    assert lostfound("state", "check").code == 0
