"""Downloading archives and converting them into sweeps; no archive's code is run."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from streams.demo import manuals
from streams.demo.manuals import EDITIONS, ManualUnavailable
from tests.streams.demo.archives import edition_files, pack


def test_the_text_files_of_an_archive_become_pages(tmp_path: Path) -> None:
    edition = EDITIONS[-1]
    archive = pack(tmp_path / "a.tar.gz", edition_files(edition))
    assert manuals.write_sweep(edition, archive, tmp_path / "pages.jsonl") == 2
    first, second = map(json.loads, (tmp_path / "pages.jsonl").read_text().splitlines())
    assert (first["url"], first["title"]) == (manuals.BASE_URL, "Title")
    assert (second["url"], second["title"]) == (manuals.BASE_URL + "ref/csrf/", "CSRF checks")
    assert second["fetch_time"] == "2024-12-04T00:00:00Z"


def test_an_interrupted_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def write_half(path: Path, data: str, encoding: str) -> None:
        write(path, data[: len(data) // 2], encoding)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", write_half)
    edition = EDITIONS[-1]
    with pytest.raises(KeyboardInterrupt):
        manuals.write_sweep(edition, pack(tmp_path / "a.tar.gz", edition_files(edition)), tmp_path / "pages.jsonl")
    assert not (tmp_path / "pages.jsonl").exists()


@pytest.mark.parametrize(
    ("path", "url"),
    [
        ("index.txt", ""),
        ("ref/index.txt", "ref/"),
        ("ref/csrf.txt", "ref/csrf/"),
        ("faq/appindex.txt", "faq/appindex/"),
    ],
)
def test_a_path_becomes_a_url(path: str, url: str) -> None:
    assert manuals.page_url(path) == manuals.BASE_URL + url


def test_a_page_without_a_heading_has_no_title() -> None:
    assert manuals.parse_title("just text\n\nmore text\n") == ""
    assert manuals.parse_title("") == ""


def test_a_broken_archive_is_deleted_and_reported(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar.gz", edition_files(EDITIONS[0]))
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(ManualUnavailable, match="not a complete archive"):
        list(manuals.read_pages(archive))
    assert not archive.exists()


def test_editions_are_ordered_by_time() -> None:
    assert [edition.release_date for edition in EDITIONS] == sorted(edition.release_date for edition in EDITIONS)


def test_downloading_runs_no_code_of_the_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "setup-code-was-run"
    for edition in EDITIONS:
        pack(tmp_path / "index" / f"Django-{edition.version}.tar.gz", edition_files(edition, marker=str(marker)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    downloaded: list[str] = []
    archives = manuals.download_archives(tmp_path / "archives", lambda edition: downloaded.append(edition.version))
    assert sorted(downloaded) == sorted(edition.version for edition in EDITIONS)
    assert all(tarfile.is_tarfile(path) for path in archives.values())
    assert not marker.exists()
    # Existing archives are not downloaded again.
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert manuals.download_archives(tmp_path / "archives", lambda _: None) == archives
