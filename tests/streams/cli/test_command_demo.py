"""`lostfound demo`, its pages from archives, and the promise that no archive's code is run."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from streams.demo import archive_backend, manuals
from streams.demo.manuals import EDITIONS, Edition, Offline
from tests.streams.cli.conftest import Lostfound

SETUP = "import pathlib, sys\npathlib.Path({marker!r}).touch()\nsys.exit('setup code was run')\n"


def pack(path: Path, files: dict[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def edition_files(edition: Edition, *, marker: str = "") -> dict[str, str]:
    """A source archive as Django's are: docs in docs/, metadata in PKG-INFO, code that we do not want to run."""
    root = f"Django-{edition.version}"
    page = "===========\nCSRF checks\n===========\n\n" + " ".join(f"word{n}" for n in range(80))
    place = "ref/contrib/csrf" if edition.version < "1.6" else "ref/csrf"
    files = {
        f"{root}/PKG-INFO": f"Metadata-Version: 1.1\nName: Django\nVersion: {edition.version}\n",
        f"{root}/setup.py": SETUP.format(marker=marker),
        f"{root}/docs/index.txt": f"Title\n=====\nThe manual of {edition.version}, its index, and words of its own.\n",
        f"{root}/docs/{place}.txt": page,
        f"{root}/docs/requirements.txt": "no page\n",
        f"{root}/docs/conf.py": "no page\n",
        f"{root}/django/docs.txt": "no page\n",
    }
    if edition.version > "5":
        files[f"{root}/pyproject.toml"] = (
            '[build-system]\nrequires = ["setuptools>=61"]\nbuild-backend = "setuptools.build_meta"\n'
        )
    return files


def test_pages_of_an_archive(tmp_path: Path) -> None:
    edition = EDITIONS[-1]
    archive = pack(tmp_path / "a.tar.gz", edition_files(edition))
    assert manuals.write_sweep(edition, archive, tmp_path / "pages.jsonl") == 2
    first, second = map(json.loads, (tmp_path / "pages.jsonl").read_text().splitlines())
    assert (first["url"], first["title"]) == (manuals.SITE, "Title")
    assert (second["url"], second["title"]) == (manuals.SITE + "ref/csrf/", "CSRF checks")
    assert second["fetch_time"] == "2024-12-04T00:00:00Z"


def test_pages_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def half(path: Path, data: str, encoding: str) -> None:
        write(path, data[: len(data) // 2], encoding)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", half)
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
def test_urls_of_pages(path: str, url: str) -> None:
    assert manuals.url_of(path) == manuals.SITE + url


def test_a_page_without_a_heading_has_no_title() -> None:
    assert manuals.title("just text\n\nmore text\n") == ""
    assert manuals.title("") == ""


def test_a_broken_archive_is_removed_and_said(tmp_path: Path) -> None:
    archive = pack(tmp_path / "a.tar.gz", edition_files(EDITIONS[0]))
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(Offline, match="no complete archive"):
        list(manuals.pages(archive))
    assert not archive.exists()


def test_editions_are_in_order_of_time() -> None:
    assert [edition.released for edition in EDITIONS] == sorted(edition.released for edition in EDITIONS)


def test_fetching_runs_no_code_of_the_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = tmp_path / "was-run"
    for edition in EDITIONS:
        pack(tmp_path / "index" / f"Django-{edition.version}.tar.gz", edition_files(edition, marker=str(marker)))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    fetched: list[str] = []
    archives = manuals.fetch(tmp_path / "archives", lambda edition: fetched.append(edition.version))
    assert sorted(fetched) == sorted(edition.version for edition in EDITIONS)
    assert all(tarfile.is_tarfile(path) for path in archives.values())
    assert not marker.exists()
    # What is there already is not fetched again.
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert manuals.fetch(tmp_path / "archives", lambda _: None) == archives


def test_the_backend_answers_from_the_archives_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 1.1\nName: Django\nVersion: 1.3.7\n")
    monkeypatch.chdir(tmp_path)
    assert archive_backend.get_requires_for_build_wheel() == []
    name = archive_backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert (tmp_path / name / "METADATA").read_text() == (tmp_path / "PKG-INFO").read_text()


def test_the_sample_shows_everything(lostfound: Lostfound, tmp_path: Path) -> None:
    done = lostfound("demo", "--sample")
    assert done.code == 0
    for said in (
        "3 sweeps",
        "What is a copy of what",
        "/guide/export.html → /manual/export/",
        "Gone",
        "Packet radio",
    ):
        assert said in done.out
    written = (tmp_path / "data" / "demo" / "sample-redirects.conf").read_text()
    assert '/guide/export.html" "https://www.windvane.example/manual/export/";' in written
    assert "read before" in lostfound("demo", "--sample").out


def test_without_an_index_the_sample_is_used(lostfound: Lostfound, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    done = lostfound("demo")
    assert done.code == 0
    assert "could not be fetched" in done.err
    assert "instead" in done.err
    assert "a small made-up manual" in done.out


def test_archives_become_sweeps(lostfound: Lostfound, tmp_path: Path) -> None:
    for edition in EDITIONS:
        archive = tmp_path / "data" / "demo" / "archives" / f"Django-{edition.version}.tar.gz"
        pack(archive, edition_files(edition))
    done = lostfound("demo")
    assert done.code == 0
    assert "6 editions" in done.out
    assert "/ref/contrib/csrf/ → /ref/csrf/" in done.out


def test_a_demo_of_another_scheme_is_made_anew(lostfound: Lostfound, tmp_path: Path) -> None:
    settings = tmp_path / "other.toml"
    settings.write_text("[scheme]\nshingle_words = 5\n")
    lostfound("demo", "--sample")
    done = lostfound("demo", "--sample", "--config", settings)
    assert done.code == 0
    assert "read before" not in done.out
