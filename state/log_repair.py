"""`state check --repair`: roll back to the last batch before the damage in a write-ahead log.

The damaged log is cut after its last intact batch, and later logs are renamed. All of them are kept as
`*.log.damaged`. Because all column families are flushed together, no table contains a removed batch.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from state import disk_sync, inventory, meta, sweeps, wal
from state.errors import DiskFull, StateCorrupt, StateError, StateLocked, StateMissing, is_disk_full
from state.model import Sweep
from state.rows import Row

_KEPT_SUFFIX = ".damaged"
_SWEEP_KEY_BYTES = 5


class Repair(msgspec.Struct, frozen=True):
    """The place of the damage, the logs that were kept, and the removed cursors and sweeps that can still be read."""

    log: Path
    intact_bytes: int
    kept_logs: list[Path]
    removed_cursors: dict[str, bytes]
    removed_sweeps: list[Sweep]


def repair(folder: Path) -> Repair | None:
    """Go back to the last batch before the first damage in a log. Return None if no log is damaged.

    If the process is killed during the repair, the state remains damaged, and the next repair finishes the work.
    Raise StateMissing, StateLocked if a writer has the state open, and StateError if other files cannot be read or
    written.
    """
    if not inventory.has_state(folder):
        raise StateMissing(f"no state in {folder}", "name the folder with --data-dir")
    try:
        with _lock(folder):
            damage = wal.find_damage(folder, verify_checksums=True)
            if damage is None:
                return None
            # Keep only rows whose keys begin like the keys of sweeps and cursors.
            rows = [row for row in wal.rows_after(damage) if row[0].startswith((b"s", b"cursor:"))]
            kept_logs = _remove_batches(damage)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(folder) from error
        message = f"cannot repair the state in {folder}: {error.strerror}"
        raise StateError(message, "check the permissions of the folder, and that its disk works") from error
    return Repair(damage.file, damage.intact_bytes, kept_logs, meta.cursors_in(rows), list(_sweeps(rows)))


def _sweeps(rows: Iterable[Row]) -> Iterator[Sweep]:
    """Yield the sweeps among rows of any column family."""
    for key, value in rows:
        if len(key) == _SWEEP_KEY_BYTES and value.startswith(b"{"):
            with suppress(StateCorrupt):  # not a row of `sweeps`
                yield sweeps.decode(key, value)


def _remove_batches(damage: wal.Damage) -> list[Path]:
    """Remove all batches after the damage, starting with the last log. Return the files in which they are kept."""
    folder = damage.file.parent
    logs = wal.logs_in_order(folder)
    later_logs = logs[logs.index(damage.file) + 1 :]
    for log in reversed(later_logs):
        log.rename(_kept_file(log))
    disk_sync.sync(folder)
    shutil.copyfile(damage.file, _kept_file(damage.file))
    disk_sync.sync(_kept_file(damage.file))
    inventory.remove(folder)  # it contains the old length of the log
    disk_sync.sync(folder)
    os.truncate(damage.file, damage.intact_bytes)
    disk_sync.sync(damage.file)
    return [_kept_file(log) for log in (damage.file, *later_logs)]


def _kept_file(log: Path) -> Path:
    return log.with_name(log.name + _KEPT_SUFFIX)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep writers out by locking the file that RocksDB locks."""
    with (folder / "LOCK").open("a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"another process is writing to the state in {folder}"
            raise StateLocked(message, "wait until it finishes") from error
        yield
