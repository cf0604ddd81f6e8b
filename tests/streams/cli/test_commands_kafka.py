"""`lostfound worker`, `topics` and `publish` without a broker."""

from __future__ import annotations

import pytest

from streams.cli.exit_codes import Exit
from tests.streams.cli.conftest import Lostfound


@pytest.mark.parametrize("command", [["topics", "create"], ["worker"], ["publish", "x.jsonl", "--sweep", "x"]])
def test_an_invalid_broker_address_is_an_error(lostfound: Lostfound, command: list[str]) -> None:
    result = lostfound(*command, "--bootstrap", "127.0.0.1:abc")
    assert result.code == Exit.USAGE
    assert "'127.0.0.1:abc'" in result.err
