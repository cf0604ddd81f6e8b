"""`lostfound find` on a state that holds two crawls, the second of which crawled a mirror of the first site."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.samples import NOW, jsonl, page
from tests.streams.cli.conftest import Lostfound
from tests.streams.find.conftest import prose

SITE, MIRROR = "https://site.example", "https://mirror.example.org"
NAMES = ("ash", "birch", "cedar", "elm", "fir", "hazel")


@pytest.fixture
def two_crawls(lostfound: Lostfound, tmp_path: Path) -> None:
    for number, host in enumerate((SITE, MIRROR)):
        lines = [page(f"{host}/trees/{name}.html", prose(name), NOW + number * 86_400_000) for name in NAMES]
        path = jsonl(tmp_path / f"{number}.jsonl", lines)
        assert lostfound("ingest", path, "--sweep", f"sweep-{number}").code == 0


@pytest.mark.usefixtures("two_crawls")
def test_a_mirror_does_not_move_the_pages_of_the_first_crawl(lostfound: Lostfound) -> None:
    result = lostfound("find", "--missing", "--redirects", "csv")
    assert MIRROR not in result.out
    assert "the last sweep did not visit 1 host of earlier sweeps" in result.err
    assert "1 host of earlier sweeps: site.example; pages" in result.err


@pytest.mark.usefixtures("two_crawls")
@pytest.mark.parametrize("by_setting", [False, True])
def test_a_whole_site_that_moved_is_found_with_its_old_host_in_scope(
    lostfound: Lostfound, tmp_path: Path, by_setting: bool
) -> None:
    config = tmp_path / "scope.toml"
    config.write_text('[find]\nscope = ["site.example"]\n', encoding="utf-8")
    options = ("--config", config) if by_setting else ("--scope", "site.example")
    result = lostfound("find", "--missing", "--json", *options)
    moved = {row["url"]: row["candidates"][0]["url"] for row in result.rows if row["status"] == "moved"}
    assert moved == {f"{SITE}/trees/{name}.html": f"{MIRROR}/trees/{name}.html" for name in NAMES}
    assert "did not visit" not in result.err


@pytest.mark.usefixtures("two_crawls")
def test_a_scope_that_is_not_a_host_is_an_error(lostfound: Lostfound) -> None:
    result = lostfound("find", "--missing", "--scope", "not a host")
    assert result.code == 2
    assert "not a host" in result.err
