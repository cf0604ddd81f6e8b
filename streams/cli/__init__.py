"""The `lostfound` command line: one module per command, each a thin layer over the library.

Data goes to stdout; progress and messages go to stderr. Modules import heavy libraries inside their functions, so
that `lostfound --help` starts fast.
"""

import os
import sys


def main() -> None:
    """Run the `lostfound` command. An interrupt during the imports ends it without a traceback."""
    # A program may start with its standard streams closed. Occupy their descriptors, or a file that we open would get
    # one of them and messages would be written into that file.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - open until exit
    try:
        from streams.cli import app
    except KeyboardInterrupt:
        sys.exit(130)
    app.main()
