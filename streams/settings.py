"""Settings: `config/lostfound.toml` holds every default, a file of the user's holds what differs."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from state.scheme import TOKENISER, Scheme
from state.store_limits import StoreLimits
from state.sweep_life import is_valid_name
from streams.errors import SettingsError
from streams.sketch.extract import SKIPPED as EXTRACTORS

STORE_MOST = 1 << 20  # MiB: a terabyte
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0.001, le=3600.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What counts as a near-duplicate, and what is kept besides sketches."""

    threshold: Annotated[float, Meta(ge=0.1, le=1.0)]
    keep_texts: bool
    index_find: bool


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on what one page, bucket or answer may take."""

    page_bytes_max: Count
    line_bytes_max: Count
    url_bytes_max: Annotated[int, Meta(ge=16, le=60_000)]
    tokens_max: Count
    bucket_postings_max: Annotated[int, Meta(ge=1, le=10_000)]
    sample_postings_max: Count
    candidates_max: Count
    members_shown_max: Count
    match_urls_max: Count


class IngestSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How input is cut into micro-batches and spread over processes, and where pointers lead."""

    batch_pages: Annotated[int, Meta(ge=1, le=100_000)]
    batch_bytes: Count
    workers: Annotated[int, Meta(ge=0, le=256)]
    workers_from_bytes: Annotated[int, Meta(ge=0)]
    warc_folder: str


class FindSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of the search for moved pages."""

    candidates_max: Count
    compared_max: Count
    gathered_max: Count
    answers_max: Count
    confidence_min: Share
    site_sample_documents: Count
    soft_404_urls: Annotated[int, Meta(ge=2)]


class KafkaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Topics, batches and times of the Faust engine."""

    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
    pages_topic: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,249}$")]
    partitions: Annotated[int, Meta(ge=1, le=1024)]
    replication: Annotated[int, Meta(ge=1, le=16)]
    create_topics: bool
    standby_replicas: Annotated[int, Meta(ge=0, le=16)]
    message_bytes_max: Annotated[int, Meta(ge=1 << 20, le=1 << 30)]
    pack_bytes: Annotated[int, Meta(ge=1024)]
    pack_pages: Annotated[int, Meta(ge=1, le=10_000)]
    take_pages: Annotated[int, Meta(ge=1, le=10_000)]
    take_messages: Annotated[int, Meta(ge=1, le=10_000)]
    take_seconds: Seconds
    commit_seconds: Seconds
    session_seconds: Annotated[float, Meta(ge=6.0, le=300.0)]
    stop_seconds_max: Seconds
    sketch_processes: Annotated[int, Meta(ge=0, le=256)]
    default_sweep: str
    default_format: Literal["", "scrapy-cluster", "scrapy-cluster-base64", "ache"]
    answer_seconds_max: Seconds
    results: list[Literal["near-duplicates", "clusters", "moves"]]
    moves_max: Count


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings, as the sections of the file."""

    scheme: Scheme
    policy: Policy
    limits: Limits
    store: StoreLimits
    ingest: IngestSettings
    find: FindSettings
    kafka: KafkaSettings

    def __post_init__(self) -> None:
        scheme = self.scheme
        for name, least, most in (
            ("shingle_words", 1, 16),
            ("bands", 1, 64),
            ("rows", 1, 7),
            ("sample_max", 16, 1024),
            ("seed", 0, (1 << 63) - 1),
        ):
            if not least <= getattr(scheme, name) <= most:
                raise ValueError(f"scheme.{name} is {getattr(scheme, name)}, not within {least} to {most}")
        for name in StoreLimits.__struct_fields__:
            if not 1 <= getattr(self.store, name) <= STORE_MOST:
                raise ValueError(f"store.{name} is {getattr(self.store, name)}, not within 1 to {STORE_MOST}")
        if not is_valid_name(self.kafka.default_sweep):
            said = "is no name for a sweep: use 1 to 200 printable characters"
            raise ValueError(f"kafka.default_sweep {self.kafka.default_sweep!r} {said}")
        if scheme.extractor not in EXTRACTORS:
            raise ValueError(f"scheme.extractor is {scheme.extractor!r}, not one of {', '.join(EXTRACTORS)}")
        if scheme.tokeniser != TOKENISER:
            raise ValueError(f"scheme.tokeniser is {scheme.tokeniser}; this release has {TOKENISER}")


def default_file() -> Path:
    """The file of defaults: beside the package in a wheel, in `config/` in a checkout."""
    packaged = Path(__file__).with_name("lostfound.toml")
    return packaged if packaged.exists() else Path(__file__).parents[1] / "config" / "lostfound.toml"


def load(path: Path | None = None, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
    """Read the defaults, the user's file over them, and `overrides` over both.

    Raises SettingsError, naming the setting, for one that is unknown or out of its limits.
    """
    named = os.environ.get("LOSTFOUND_CONFIG")
    path = path or (Path(named) if named else None)
    tables = _read(default_file())
    for layer in (_read(path) if path else {}, overrides or {}):
        for section, values in layer.items():
            if not isinstance(values, dict):
                raise SettingsError(f"{path}: {section} stands outside a section", "put it under [section]")
            tables.setdefault(section, {}).update(values)
    # These two also stand in a state or a message, where a field that is not known is for its version to judge.
    for section, known in (("scheme", Scheme), ("store", StoreLimits)):
        if unknown := tables[section].keys() - set(known.__struct_fields__):
            raise _refused(path, f"{section} has no setting {', '.join(sorted(unknown))}")
    try:
        return msgspec.convert(tables, Settings)
    except msgspec.ValidationError as error:
        raise _refused(path, str(error)) from error


def _refused(path: Path | None, said: str) -> SettingsError:
    return SettingsError(
        f"{path or 'settings'}: {said}", "config/lostfound.toml lists every setting with its unit and limit"
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}", "name a settings file that can be read") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}", "the file must be TOML") from error
