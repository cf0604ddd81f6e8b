"""Settings are loaded in layers, and an invalid one is named."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from state.families import StoreLimits
from state.scheme import Scheme
from streams.errors import SettingsError
from streams.settings import default_file, load


def test_the_file_of_defaults_is_complete_and_agrees_with_the_code() -> None:
    defaults = load()
    tables = tomllib.loads(default_file().read_text(encoding="utf-8"))
    assert msgspec.to_builtins(defaults) == tables
    assert defaults.scheme == Scheme()
    assert defaults.store == StoreLimits()


def test_a_file_contains_only_the_differences(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[policy]\nthreshold = 0.8\n")
    assert load(path).policy.threshold == 0.8
    assert load(path).limits == load().limits
    assert load(path, overrides={"policy": {"threshold": 0.6}}).policy.threshold == 0.6


@pytest.mark.parametrize(
    ("section", "values", "named"),
    [
        ("policy", {"threshold": 0.05}, "policy.threshold"),
        ("policy", {"threshold": 1.01}, "policy.threshold"),
        ("policy", {"threshold": "high"}, "policy.threshold"),
        ("policy", {"media_types": ["rst"]}, "policy.media_types: 'rst'"),
        ("policy", {"media_types": ["text/*"]}, "policy.media_types: 'text/*'"),
        ("policy", {"media_types": "text/css"}, "policy.media_types"),
        ("policy", {"file_suffixes": ["js"]}, "policy.file_suffixes: 'js'"),
        ("limits", {"page_bytes_max": 0}, "limits.page_bytes_max"),
        ("limits", {"page_bytes": 1}, "page_bytes"),
        ("limits", {"url_bytes_max": 1_000_000}, "limits.url_bytes_max"),
        ("scheme", {"bands": 0}, "scheme.bands"),
        ("scheme", {"rows": 8}, "scheme.rows"),
        ("scheme", {"shingle_words": 17}, "scheme.shingle_words"),
        ("scheme", {"sample_max": 15}, "scheme.sample_max"),
        ("scheme", {"tokeniser": 99}, "scheme.tokeniser"),
        ("scheme", {"extractor": "none-such"}, "scheme.extractor"),
        ("scheme", {"seed": -1}, "scheme.seed"),
        ("scheme", {"colour": 1}, "colour"),
        ("store", {"cache_mib": 0}, "store.cache_mib"),
        ("store", {"cache": 1}, "cache"),
        ("ingest", {"workers": -1}, "ingest.workers"),
        ("find", {"confidence_min": 2}, "find.confidence_min"),
        ("kafka", {"default_sweep": "a\tb"}, "kafka.default_sweep"),
        ("kafka", {"default_sweep": ""}, "kafka.default_sweep"),
        ("kafka", {"default_sweep": "x" * 201}, "kafka.default_sweep"),
        ("nonsense", {"a": 1}, "nonsense"),
    ],
)
def test_an_invalid_setting_is_named(section: str, values: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(overrides={section: values})
    assert named in str(refused.value).replace("`$.", "").replace("`", "")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threshold = 0.8\n", "not in a section"),
        ("[policy", "at the end of a table"),
        ("[policy]\nthreshold = [1]\n", "threshold"),
    ],
)
def test_an_invalid_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"mine\.toml") as refused:
        load(path)
    assert message in str(refused.value)


def test_media_types_and_suffixes_may_be_written_in_capitals_and_with_parameters() -> None:
    policy = load(
        overrides={"policy": {"media_types": ["Text/X-RST; charset=utf-8"], "file_suffixes": [".JS"]}}
    ).policy
    assert (policy.media_types, policy.file_suffixes) == (["text/x-rst"], [".js"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="directory"):
        load(tmp_path)
