"""Exit codes: a table, so that scripts can rely on it. docs/cli.md shows it and a test compares the two."""

from __future__ import annotations

from enum import IntEnum

from streams.errors import BadRecord, InputError, LostfoundError, NotFound, SettingsError, StateError


class Exit(IntEnum):
    """What a command's exit code says."""

    OK = 0
    NOTHING = 1  # asked and answered: nothing found, or a check that failed
    USAGE = 2  # an option, path, URL or setting that cannot be used
    BAD_INPUT = 3  # a record was refused and --bad-records fail was given
    STATE = 4  # the state is missing, locked, damaged, or of another scheme or a newer version
    BUG = 70  # our fault; the traceback is shown
    RESTART = 75  # of a worker: it ended before it acknowledged what failed; start it again
    INTERRUPTED = 130  # Ctrl-C or SIGTERM; what was committed stays
    CLOSED_PIPE = 141  # whoever read our stdout went away, as with `| head`


# From the most special to the most general: the first that fits decides.
OF_ERRORS: tuple[tuple[type[LostfoundError], Exit], ...] = (
    (BadRecord, Exit.BAD_INPUT),
    (NotFound, Exit.NOTHING),
    (InputError, Exit.USAGE),
    (SettingsError, Exit.USAGE),
    (StateError, Exit.STATE),
    (LostfoundError, Exit.USAGE),
)


def of_error(error: LostfoundError) -> Exit:
    """The exit code of an error that was raised for people."""
    return next(code for kind, code in OF_ERRORS if isinstance(error, kind))
