"""Sync files and folders to disk, so that they survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to disk. Return when this is done."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(source: Path, target: Path) -> None:
    """Rename `source` to `target`, which may exist. After a power cut, `target` is either the old file or the new."""
    sync(source)
    source.replace(target)
    sync(target.parent)
