"""Fixtures of all tests, and what makes the suite independent of how it was started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from state.store import Store

ROOT = Path(__file__).parents[1]

# Tests import their helpers as `tests.x`. The root comes last on the path, so that an installed wheel is tested.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

# `nohup make test` and `make test &` in a script ignore SIGINT, and children inherit that across exec. The tests of
# Ctrl-C need the default, as a command in a terminal has it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine may stall any example; pytest-timeout stops the tests that hang.
hypothesis_settings.register_profile(
    "suite", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that read real crawls, so that `make test-data` can select them."""
    for item in items:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real_data)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a test after the length of a binary parameter.

    The bytes may contain the time: a gzip header does. Then the test processes would collect different names.
    """
    return f"{len(val)} bytes" if isinstance(val, bytes) and not val.isascii() else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder `data` of real pages with known answers, below LOSTFOUND_SHARED or beside the checkout."""
    shared = Path(os.environ.get("LOSTFOUND_SHARED", ROOT.parent / "shared"))
    if not (shared / "data").is_dir():
        pytest.skip(f"no real data in {shared}/data: set LOSTFOUND_SHARED to its parent folder")
    return shared / "data"


@pytest.fixture(autouse=True)
def uncached_loggers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no logger keep the stderr of the test that configured it, which is closed when that test ends."""
    configure = structlog.configure

    def configure_uncached(**settings: Any) -> None:
        configure(**settings | {"cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", configure_uncached)
    yield
    structlog.reset_defaults()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new store that is open for writing."""
    with Store(tmp_path / "state") as opened:
        yield opened
