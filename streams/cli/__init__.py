"""The command line: one small module a group of commands, all of them thin over the library's functions.

Data goes to stdout, progress and messages to stderr. Modules here import heavy libraries inside their functions, so
that `lostfound --help` answers at once.
"""

import os
import sys


def main() -> None:
    """The `lostfound` command; an interrupt while it is loaded ends it without a traceback."""
    # Some start programs with streams closed. No file of ours may get their numbers, or messages would go into it.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for good
    try:
        from streams.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()
