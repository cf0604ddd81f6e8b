"""Sync files and folders to disk, so that they survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Block until the contents of a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(source: Path, target: Path) -> None:
    """Rename `source` to `target`, replacing an old file. After a power cut, `target` is the old or the new file."""
    sync(source)
    source.replace(target)
    sync(target.parent)
