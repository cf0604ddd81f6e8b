"""Load the settings: the defaults in `config/lostfound.toml`, overridden by the user's file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from state.families import StoreLimits
from state.scheme import TOKENISER, Scheme
from state.sweep_life import is_valid_name
from streams.errors import SettingsError
from streams.sketch.extract import SKIPPED_TAGS_BY_EXTRACTOR

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0.001, le=3600.0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_SUFFIX = re.compile(r"\.\w{1,10}")


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The threshold for near-duplicates, which optional data is stored with sketches, and what is not a page."""

    threshold: Annotated[float, Meta(ge=0.1, le=1.0)]
    keep_texts: bool
    index_find: bool
    keep_links: Literal["off", "targets", "anchors"]
    media_types: list[str]
    file_suffixes: list[str]

    def __post_init__(self) -> None:
        media_types = [media_type.partition(";")[0].strip().lower() for media_type in self.media_types]
        suffixes = [suffix.lower() for suffix in self.file_suffixes]
        _check_names("media_types", media_types, _MEDIA_TYPE, "text/x-rst")
        _check_names("file_suffixes", suffixes, _SUFFIX, ".js")
        msgspec.structs.force_setattr(self, "media_types", media_types)
        msgspec.structs.force_setattr(self, "file_suffixes", suffixes)


def _check_names(setting: str, names: list[str], pattern: re.Pattern[str], example: str) -> None:
    for name in names:
        if not pattern.fullmatch(name):
            raise ValueError(f"policy.{setting}: {name[:100]!r} is not written like {example!r}")


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits per page, per bucket and per answer."""

    page_bytes_max: Count
    line_bytes_max: Count
    url_bytes_max: Annotated[int, Meta(ge=16, le=60_000)]
    tokens_max: Count
    html_tags_max: Count
    html_attributes_max: Count
    links_max: Count
    anchor_chars_max: Annotated[int, Meta(ge=1, le=10_000)]
    header_bytes_max: Annotated[int, Meta(ge=1024, le=1 << 26)]
    bucket_postings_max: Annotated[int, Meta(ge=1, le=10_000)]
    sample_postings_max: Count
    candidates_max: Count
    members_shown_max: Count
    match_urls_max: Count


class IngestSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of micro-batches, number of worker processes, WARC files to which JSONL refers, and files to skip."""

    batch_pages: Annotated[int, Meta(ge=1, le=100_000)]
    batch_bytes: Count
    workers: Annotated[int, Meta(ge=0, le=256)]
    workers_from_bytes: Annotated[int, Meta(ge=0)]
    warc_folder: str
    html_exclude: list[str]


class FindSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the search for moved pages."""

    candidates_max: Count
    compared_max: Count
    gathered_max: Count
    answers_max: Count
    confidence_min: Share
    site_sample_documents: Count
    link_sources_max: Count
    soft_404_urls: Annotated[int, Meta(ge=2)]
    scope: list[str]
    tracking_parameters: list[Annotated[str, Meta(pattern=r"^[!-%'-<>-~]{1,100}$")]]


class AnalysisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the analyses of the whole state: mirrors, replicas, collections and changes."""

    sql_engine: Literal["duckdb", "spark"]
    memory_mib: Annotated[int, Meta(ge=64, le=1 << 20)]
    threads: Annotated[int, Meta(ge=0, le=1024)]
    results_mib_max: Annotated[int, Meta(ge=1, le=1 << 16)]
    at_commit: list[Literal["changes", "collections", "mirrors", "replicas"]]
    mirror_sample_pages: Count
    mirror_feature_hosts_max: Annotated[int, Meta(ge=2, le=10_000)]
    mirror_tests_max: Annotated[int, Meta(ge=5)]
    replica_neighbours_max: Annotated[int, Meta(ge=1, le=1000)]
    replica_paths_max: Annotated[int, Meta(ge=3, le=100_000)]
    replica_depth_max: Annotated[int, Meta(ge=1, le=1000)]
    collection_clusters_min: Annotated[int, Meta(ge=2, le=1_000_000)]
    collection_urls_max: Count
    avoid_pure: Annotated[float, Meta(gt=0.0, le=1.0)]
    avoid_sample: Share


class KafkaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Topics, batches and timeouts of the Kafka engine."""

    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
    pages_topic: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,249}$")]
    partitions: Annotated[int, Meta(ge=1, le=1024)]
    replication: Annotated[int, Meta(ge=1, le=16)]
    create_topics: bool
    standby_replicas: Annotated[int, Meta(ge=0, le=16)]
    message_bytes_max: Annotated[int, Meta(ge=1 << 20, le=1 << 30)]
    batch_bytes_max: Annotated[int, Meta(ge=1 << 20, le=1 << 31)]
    compression: Literal["", "gzip", "snappy", "lz4", "zstd"]
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
    results: list[Literal["near-duplicates", "clusters", "moves", "analyses"]]
    moves_max: Count
    snapshot_folder: Annotated[str, Meta(pattern=r"^(/.*)?$")]
    export_folder: Annotated[str, Meta(pattern=r"^(/.*)?$")]
    snapshot_records: Annotated[int, Meta(ge=0)]


class ServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of a worker's HTTP server: connections, requests, times and sizes."""

    connections_max: Annotated[int, Meta(ge=8, le=100_000)]
    client_requests_max: Annotated[int, Meta(ge=1, le=100_000)]
    worker_requests_max: Annotated[int, Meta(ge=1, le=100_000)]
    change_requests_max: Annotated[int, Meta(ge=1, le=100_000)]
    query_threads: Annotated[int, Meta(ge=1, le=256)]
    retry_seconds: Seconds
    header_seconds_max: Seconds
    body_seconds_max: Seconds
    send_seconds_max: Seconds
    answer_bytes_max: Annotated[int, Meta(ge=1024, le=1 << 30)]
    files_reserved: Annotated[int, Meta(ge=0, le=1_000_000)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings, one field per section of the file."""

    scheme: Scheme
    policy: Policy
    limits: Limits
    store: StoreLimits
    ingest: IngestSettings
    find: FindSettings
    analyses: AnalysisSettings
    kafka: KafkaSettings
    server: ServerSettings

    def __post_init__(self) -> None:
        sweep, scheme = self.kafka.default_sweep, self.scheme
        if not is_valid_name(sweep):
            raise ValueError(
                f"kafka.default_sweep {sweep!r} is not a valid sweep name: use 1 to 200 printable characters"
            )
        if scheme.extractor not in SKIPPED_TAGS_BY_EXTRACTOR:
            extractors = ", ".join(SKIPPED_TAGS_BY_EXTRACTOR)
            raise ValueError(f"scheme.extractor is {scheme.extractor!r}, not one of {extractors}")
        if scheme.tokeniser != TOKENISER:
            raise ValueError(f"scheme.tokeniser is {scheme.tokeniser}, but this version supports only {TOKENISER}")


def default_file() -> Path:
    """Return the path of the default settings: next to this module in a wheel, in `config/` in a checkout."""
    packaged = Path(__file__).with_name("lostfound.toml")
    return packaged if packaged.exists() else Path(__file__).parents[1] / "config" / "lostfound.toml"


def load(path: Path | None = None, overrides: dict[str, dict[str, Any]] | None = None) -> Settings:
    """Return the defaults, overridden by the file at `path`, then by `overrides`.

    Raise SettingsError, which names the setting, if a setting is unknown or out of range.
    """
    tables = _read(default_file())
    for layer in (_read(path) if path else {}, overrides or {}):
        for name, values in layer.items():
            if not isinstance(values, dict):
                raise SettingsError(f"{path or 'settings'}: {name} is not in a section", "put it under [section]")
            tables.setdefault(name, {}).update(values)
    # Unlike the other structs, these two are also decoded from stored states and messages, so they tolerate unknown
    # fields. Unknown settings are therefore rejected here.
    for section, struct in (("scheme", Scheme), ("store", StoreLimits)):
        if unknown := tables[section].keys() - set(struct.__struct_fields__):
            raise _settings_error(path, f"{section} has no setting {', '.join(sorted(unknown))}")
    try:
        return msgspec.convert(tables, Settings)
    except msgspec.ValidationError as error:
        raise _settings_error(path, str(error)) from error


def _settings_error(path: Path | None, detail: str) -> SettingsError:
    hint = "`lostfound config` lists every setting with its unit and limits"
    return SettingsError(f"{path or 'settings'}: {detail}", hint)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}", "use a settings file that exists and is readable") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}", "the file must be TOML in UTF-8") from error
