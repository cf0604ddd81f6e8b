"""The command line: one small module a group of commands, all of them thin over the library's functions.

Data goes to stdout, progress and messages to stderr. Modules here import heavy libraries inside their functions, so
that `lostfound --help` answers at once.
"""

from streams.cli.app import main

__all__ = ["main"]
