"""The build backend that answers from an archive's metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.demo import archive_backend


def test_the_backend_copies_the_metadata_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "PKG-INFO").write_text("Metadata-Version: 1.1\nName: Django\nVersion: 1.3.7\n")
    monkeypatch.chdir(tmp_path)
    assert archive_backend.get_requires_for_build_wheel() == []
    name = archive_backend.prepare_metadata_for_build_wheel(str(tmp_path))
    assert (tmp_path / name / "METADATA").read_text() == (tmp_path / "PKG-INFO").read_text()
