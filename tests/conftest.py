"""What all tests share: the data that stays outside the project, a store of their own, settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

ROOT = Path(__file__).parents[1]

# Tests import their helpers as `tests.x`; behind everything, so that an installed wheel is tested where there is one.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

# Two busy cores may stall any example; what takes too long is for pytest-timeout.
hypothesis_settings.register_profile(
    "suite", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("suite")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real pages with known answers: LOSTFOUND_SHARED, or `../shared` beside the checkout."""
    shared = Path(os.environ.get("LOSTFOUND_SHARED", ROOT.parent / "shared"))
    if not (shared / "data").is_dir():
        pytest.skip(f"no real data in {shared}/data: name its folder with LOSTFOUND_SHARED")
    return shared / "data"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[object]:
    """A writer's store in a new folder."""
    from state.store import Store

    with Store(tmp_path / "state") as opened:
        yield opened
