"""Commands on read-only disks and full disks.

Each test runs a shell script in a mount namespace of its own, which takes its mounts with it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.streams.cli.conftest import COMMAND, ROOT, SITE, Lostfound

QUERIES = ("clusters", f"similar {SITE}/faq.html", "find --missing", "sweep list", "state check")
# All queries run in one process, because starting a process takes longer than a query.
QUERY_PROGRAM = """
import sys
from streams.cli.app import run
sys.exit(max(run(query.split()) for query in sys.argv[1:]))
"""
RUN_QUERIES = shlex.join([sys.executable, "-c", QUERY_PROGRAM, *QUERIES]) + "\n"
PRELUDE = f'lostfound() {{ {shlex.join([*COMMAND])} "$@"; }}\n'


def run_script(script: str, folder: Path, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a script that stops at the first failed command. `$1` is `folder`."""
    command = [*prefix, "sh", "-ec", PRELUDE + script, "sh", str(folder)]
    environment = os.environ | {"LOSTFOUND_DATA_DIR": str(folder / "data")}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=240
    )


@pytest.fixture(scope="session")
def namespace() -> tuple[str, ...]:
    """The command prefix that allows a script to mount disks."""
    prefix = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))
    try:
        subprocess.run([*prefix, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine does not allow tests to mount disks")
    return prefix


def test_a_state_on_a_read_only_disk_answers_queries(
    sample_state: Path, tmp_path: Path, namespace: tuple[str, ...]
) -> None:
    expected = run_script(RUN_QUERIES, tmp_path)
    assert expected.returncode == 0, expected.stderr
    files = sorted(file.name for file in sample_state.iterdir())
    read_only = 'mount --bind "$1/data" "$1/data"; mount -o remount,ro,bind "$1/data"\n'
    result = run_script(f'{read_only}{RUN_QUERIES}lostfound state backup "$1/copy"\n', tmp_path, namespace)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(expected.stdout)
    assert result.stderr == expected.stderr
    assert sorted(file.name for file in sample_state.iterdir()) == files
    copy = tmp_path / "copy"
    assert not any(file.is_symlink() for file in copy.iterdir())
    assert run_script('lostfound --data-dir "$1/copy" state check\n', tmp_path).returncode == 0
    refused = run_script(f"{read_only}lostfound sweep open next\n", tmp_path, namespace)
    assert refused.returncode == 4
    assert "read-only file system" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_state_without_write_permission_answers_queries(sample_state: Path, tmp_path: Path) -> None:
    # Root ignores permissions, unless this capability is dropped.
    prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    expected = run_script(RUN_QUERIES, tmp_path)
    for path in (sample_state, *sample_state.iterdir()):
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        assert run_script('touch "$1/data/new"', tmp_path, prefix).returncode != 0
        result = run_script(RUN_QUERIES, tmp_path, prefix)
        refused = run_script("lostfound sweep open next\n", tmp_path, prefix)
    finally:
        sample_state.chmod(0o755)
    assert (result.returncode, result.stdout, result.stderr) == (0, expected.stdout, expected.stderr)
    assert refused.returncode == 4
    assert "permission denied" in refused.stderr
    assert "Traceback" not in refused.stderr


FULL_DISK = """
mount -t tmpfs -o size=4m none "$1"
ingest() { lostfound --data-dir "$1/data" ingest "$2" --sweep one; }
ingest "$1" "$CRAWL" || echo "exit $?"
echo next; ingest "$1" "$CRAWL" || echo "exit $?"
lostfound --data-dir "$1/data" sweep list > /dev/null
mkdir "$1/other"
mount -t tmpfs -o size=64k none "$1/other"
echo backup; lostfound --data-dir "$1/data" state backup "$1/other/copy" || echo "exit $?"
test ! -e "$1/other/copy"
mount -o remount,size=200m "$1"
ingest "$1" "$CRAWL"
lostfound --data-dir "$1/data" state check
"$PYTHON" -c 'import json, sys; print(len([json.loads(line) for line in sys.stdin]))' < "$1/data/dead-letters.jsonl"
"""


def test_a_full_disk_is_reported_and_the_ingest_resumes_once_there_is_space(
    tmp_path: Path, namespace: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = tmp_path / "crawl.jsonl"
    with crawl.open("w") as file:
        for n in range(3_000):
            words = " ".join(f"w{n * 7919 + i * i}" for i in range(300))
            file.write(f'{{"url": "https://a.example/{n}", "text": "{words}"}}\n')
            if n % 10 == 0:
                file.write('{"url": 7}\n')
    monkeypatch.setenv("CRAWL", str(crawl))
    monkeypatch.setenv("PYTHON", sys.executable)
    disk = tmp_path / "disk"
    disk.mkdir()
    result = run_script(FULL_DISK, disk, namespace)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count(f"lostfound: the disk of {disk}/data is full\n  free some space") == 2
    assert result.stderr.count(f"lostfound: the disk of {disk}/other is full\n  free some space") == 1
    first, _, rest = result.stdout.partition("next\n")
    second, _, rest = rest.partition("backup\n")
    assert (first, second) == ("exit 4\n", "exit 4\n")
    assert rest.startswith("exit 4\nsweep one  3,300 pages, ")  # some were committed before
    assert "new 3,000 " in rest
    assert rest.endswith("\n300\n")
    assert "the state is sound" in result.stderr


def test_a_backup_into_the_state_is_refused(lostfound: Lostfound, sample_state: Path) -> None:
    result = lostfound("state", "backup", sample_state / "copy")
    assert result.code == 2
    assert "is inside the folder of the state" in result.err
    assert not (sample_state / "copy").exists()


def test_a_damaged_inventory_ends_every_command_with_a_hint(lostfound: Lostfound, sample_state: Path) -> None:
    (sample_state / "files.json").write_bytes(b'{"CURRENT": "MANIFEST-\xff')
    for arguments in (["clusters"], ["state", "check"], ["sweep", "open", "next"]):
        result = lostfound(*arguments)
        assert result.code == 4
        assert "files.json is damaged" in result.err
        assert "restore a backup" in result.err
