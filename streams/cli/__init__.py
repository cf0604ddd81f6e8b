"""The command line: one small module a group of commands, all of them thin over the library's functions.

Data goes to stdout, progress and messages to stderr. Modules here import heavy libraries inside their functions, so
that `lostfound --help` answers at once.
"""

import sys


def main() -> None:
    """The `lostfound` command; an interrupt while it is loaded ends it without a traceback."""
    try:
        from streams.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()
