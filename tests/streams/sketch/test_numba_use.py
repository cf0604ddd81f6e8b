"""numba is loaded when numpy has worked as long as loading takes, and stays in use from then on."""

from __future__ import annotations

import pytest

from streams.sketch import numba_use


def test_work_adds_up_until_loading_is_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_use, "is_loaded", lambda: False)
    monkeypatch.setattr(numba_use, "_numpy_seconds", 0.0)
    third = numba_use.LOAD_SECONDS / 2.9
    assert [numba_use.is_worthwhile(third) for _ in range(4)] == [False, False, True, True]


def test_a_loaded_kernel_is_always_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_use, "is_loaded", lambda: True)
    assert numba_use.is_worthwhile(0.0)
