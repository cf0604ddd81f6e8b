"""The `lostfound` command line: a thin layer over the library.

Data goes to stdout; progress and messages go to stderr. Modules import heavy libraries inside functions, so that
`lostfound --help` responds quickly.
"""

import os
import sys


def main() -> None:
    """Run the `lostfound` command. If the imports are interrupted, exit without a traceback."""
    # Occupy the file descriptors of closed standard streams. Otherwise, a file that is opened later could get the
    # descriptor of stdout or stderr, and output would be written into that file.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - open until exit
    try:
        from streams.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()
