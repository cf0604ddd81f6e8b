"""Test the exit code of a worker that has to be restarted."""

from __future__ import annotations

from streams.kafka.process_exit import EXIT_RESTART


def test_the_exit_code_for_a_restart_is_documented() -> None:
    from streams.cli.exit_codes import Exit

    assert EXIT_RESTART == Exit.RESTART
