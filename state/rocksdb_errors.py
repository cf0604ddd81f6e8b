"""Translate RocksDB's errors into errors for users.

rocksdict has no error types, so errors are recognised by their messages.
"""

from __future__ import annotations

from pathlib import Path

from state import wal
from state.errors import DiskFull, StateCorrupt, StateError, StateLocked, is_disk_full


def check_logs(folder: Path, *, verify_checksums: bool = False) -> None:
    """Raise StateCorrupt if a log or the manifest of a state is damaged."""
    if damage := wal.find_damage(folder, verify_checksums=verify_checksums):
        raise damaged_log_error(damage.file, damage.intact_bytes)
    if damage := wal.find_manifest_damage(folder):
        raise damaged_manifest_error(damage.file, damage.intact_bytes)


def is_log_damage(error: Exception) -> bool:
    """Return whether RocksDB found damage in a log. Errors about other files name the file."""
    message = str(error)
    return "Corruption" in message and not any(name in message for name in (".sst", "MANIFEST", "CURRENT"))


def is_missing_column_families(error: Exception) -> bool:
    """Return whether a database is not a state, or its writer has not yet created all column families."""
    return any(cause in str(error) for cause in ("Column families not opened", "Column family not found"))


def damaged_log_error(log: Path, intact_bytes: int) -> StateCorrupt:
    """Return the error for a log that is intact only up to this length."""
    return StateCorrupt(
        f"the log {log} is damaged after byte {intact_bytes}, so the batches after it cannot be read",
        "restore a backup, or run `lostfound state check --repair` to go back to the last batch before the damage",
    )


def damaged_manifest_error(manifest: Path, intact_bytes: int) -> StateCorrupt:
    """Return the error for a manifest that is intact only up to this length."""
    return StateCorrupt(f"{manifest} is damaged after byte {intact_bytes}", "restore a backup")


def state_error(path: Path, error: Exception) -> StateError:
    """Return the error for a failed read or write of the state in `path`."""
    message = str(error)
    if is_disk_full(error):
        return DiskFull(path)
    if "corrupt" in message.lower() or "checksum" in message.lower() or "No such file" in message:
        hint = "restore a backup, or ingest into a new folder"
        return StateCorrupt(f"the state in {path} is damaged: {message}", hint)
    return StateError(
        f"cannot use the state in {path}: {message}", "check that the disk works; committed data is safe"
    )


def open_error(path: Path, error: Exception) -> StateError:
    """Return the error for a failed attempt to open the state in `path`."""
    if isinstance(error, StateError):
        return error
    reason = str(error)
    if is_disk_full(error):
        return DiskFull(path)
    if "lock file" in reason.lower() or "lock hold" in reason.lower():
        return StateLocked(f"another process is writing to the state in {path}", "wait until it finishes")
    if is_missing_column_families(error):
        message = f"the RocksDB database in {path} is not a lostfound state: it has different column families"
        return StateError(message, "choose a different folder with --data-dir")
    for cause in ("Read-only file system", "Permission denied"):
        if cause in reason:
            hint = "choose a writable folder with --data-dir; queries need only read permission"
            return StateError(f"the state in {path} cannot be opened: {cause.lower()}", hint)
    return StateError(
        f"cannot open the state in {path}: {reason}", "run `lostfound state check`, or restore a backup"
    )
