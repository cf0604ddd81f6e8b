"""Check that a worker may open enough files.

HTTP connections, RocksDB's tables and the connections to Kafka share one limit per process (RLIMIT_NOFILE). A worker
that reaches it can neither write its state nor talk to the broker, so it must end.
"""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

from streams.errors import InputError
from streams.settings import ServerSettings

_UNLIMITED_FILES = 1 << 20  # requested if the system sets no hard limit


def count_open_files() -> int:
    """Return how many files and sockets this process has open."""
    return sum(1 for _ in Path("/dev/fd").iterdir())


def open_files_max() -> int:
    """Return how many files and sockets this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED_FILES if soft == resource.RLIM_INFINITY else soft


def ensure_open_files(settings: ServerSettings) -> None:
    """Increase the soft limit to the hard limit. Raise InputError if this is too low for the settings."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _UNLIMITED_FILES if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(ValueError, OSError):  # some systems have a lower limit, which the check below detects
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    needed = settings.connections_max + settings.files_reserved
    if open_files_max() < needed:
        raise InputError(
            f"a process may open {open_files_max()} files, but server.connections_max and server.files_reserved"
            f" need {needed}",
            "raise the limit (`ulimit -n`, or LimitNOFILE of systemd) or lower these settings",
        )
