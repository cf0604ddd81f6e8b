"""The exit codes of all commands, a contract for scripts. A test compares them with the table in docs/cli.md."""

from __future__ import annotations

from enum import IntEnum

from streams.errors import BadRecord, LostfoundError, NotFound, StateError


class Exit(IntEnum):
    OK = 0
    NOTHING = 1  # the answer is empty, or a check failed
    USAGE = 2  # an option, path, URL or setting is invalid, or the input contains no page
    BAD_INPUT = 3  # a record was rejected under `--bad-records fail`
    # The state is missing, locked or damaged, has a different scheme or a newer format, or its disk is full; or a
    # worker does not answer or is overloaded.
    STATE = 4
    BUG = 70  # a bug in lostfound; the traceback is printed
    RESTART = 75  # a worker stopped on an error before it had acknowledged all messages; restart it
    INTERRUPTED = 130  # Ctrl-C or SIGTERM; committed data is kept
    CLOSED_PIPE = 141  # the reader of stdout has closed the pipe, as `| head` does


_EXIT_CODES = {BadRecord: Exit.BAD_INPUT, NotFound: Exit.NOTHING, StateError: Exit.STATE}


def exit_code_of(error: LostfoundError) -> Exit:
    return next((code for error_type, code in _EXIT_CODES.items() if isinstance(error, error_type)), Exit.USAGE)
