"""Exit codes, a contract for scripts. docs/cli.md repeats this table and a test compares the two."""

from __future__ import annotations

from enum import IntEnum

from streams.errors import BadRecord, InputError, LostfoundError, NotFound, SettingsError, StateError


class Exit(IntEnum):
    """The exit codes of all commands."""

    OK = 0
    NOTHING = 1  # the answer is empty, or a check failed
    USAGE = 2  # an option, path, URL or setting is invalid
    BAD_INPUT = 3  # a record was rejected and --bad-records fail was given
    STATE = 4  # the state is missing, locked, damaged, or of another scheme or a newer version
    BUG = 70  # a bug in lostfound; the traceback is printed
    RESTART = 75  # a worker failed before it acknowledged a message: restart it
    INTERRUPTED = 130  # Ctrl-C or SIGTERM; what was committed is kept
    CLOSED_PIPE = 141  # the reader of stdout has closed it, as `| head` does


# Subclasses before their base classes: the first match counts.
_EXIT_CODES: tuple[tuple[type[LostfoundError], Exit], ...] = (
    (BadRecord, Exit.BAD_INPUT),
    (NotFound, Exit.NOTHING),
    (InputError, Exit.USAGE),
    (SettingsError, Exit.USAGE),
    (StateError, Exit.STATE),
    (LostfoundError, Exit.USAGE),
)


def exit_code_of(error: LostfoundError) -> Exit:
    return next(code for kind, code in _EXIT_CODES if isinstance(error, kind))
