"""Sample pages of the tests, written as crawlers write them and ingested as by the command line."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from state import sweeps
from state.changes import Changes
from state.model import Sweep
from state.rows import RowStore
from state.store import Store
from streams.engine.ingest import Summary, ingest
from streams.settings import Settings, load

Line = dict[str, Any]
NOW = 1_700_000_000_000


def settings(overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """Return the default settings with one process, and with these overrides."""
    tables: dict[str, dict[str, Any]] = {"ingest": {"workers": 1}}
    for section, values in (overrides or {}).items():
        tables.setdefault(section, {}).update(values)
    return load(overrides=tables)


def page(url: str, text: str, time: int = NOW, **fields: Any) -> Line:
    return {"url": url, "fetch_time": time, "text": text, **fields}


def html(url: str, body: str, time: int = NOW, **fields: Any) -> Line:
    return {"url": url, "fetch_time": time, "html": f"<html><body>{body}</body></html>", **fields}


def redirect(url: str, target: str, time: int = NOW, status: int = 301) -> Line:
    return {"url": url, "fetch_time": time, "fetch_status": status, "fetch_redirect": target}


def missing(url: str, time: int = NOW, status: int = 404) -> Line:
    return {"url": url, "fetch_time": time, "fetch_status": status}


def words(rng: random.Random, count: int, vocabulary: int = 5_000) -> list[str]:
    return [f"word{rng.randrange(vocabulary)}" for _ in range(count)]


def variant(rng: random.Random, text: list[str], changes: int = 1) -> list[str]:
    """Return the words with some of them replaced."""
    changed = list(text)
    for _ in range(changes):
        changed[rng.randrange(len(changed))] = f"other{rng.randrange(10**9)}"
    return changed


def jsonl(path: Path, lines: Iterable[Line]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


def begin_cancel(store: RowStore, sweep: Sweep) -> Sweep:
    """Begin to cancel a sweep and stop, as after a crash."""
    changes = Changes()
    cancelling = sweeps.begin_cancel(sweep, changes)
    store.write(changes)
    return cancelling


def take(
    store: Store, path: Path, lines: Iterable[Line], sweep: str, wanted: Settings | None = None, **options: Any
) -> Summary:
    """Ingest pages as a sweep, from a file written to `path`."""
    return ingest(
        store, wanted or settings(), [str(jsonl(path, lines))], sweep, now=options.pop("now", NOW), **options
    )
