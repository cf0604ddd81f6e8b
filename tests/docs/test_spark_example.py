"""Run the example of analyses on Spark in docs/cli.md. `make test-spark` installs Spark and runs this test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.streams.cli.conftest import SAMPLE

pytestmark = pytest.mark.long
pytest.importorskip("pyspark", reason="installed by `make test-spark`")

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(r"^### Analyses on Spark\n.*?^```sh\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment variables with which `lostfound` runs this checkout. The system's Python lacks lostfound."""
    script = tmp_path / "bin" / "lostfound"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom streams.cli import main\nmain()\n")
    script.chmod(0o755)
    removed = ("LOSTFOUND_DATA_DIR", "LOSTFOUND_CONFIG", "LOSTFOUND_SERVER", "PYSPARK_PYTHON", "SPARK_CONF_DIR")
    inherited = {name: value for name, value in os.environ.items() if name not in removed}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **inherited,
        "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "COLUMNS": "100",
    }


def run(script: str, folder: Path, environment: dict[str, str]) -> str:
    process = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_the_example_has_the_result_of_duckdb(tmp_path: Path, environment: dict[str, str]) -> None:
    example = EXAMPLE.search((ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
    assert example is not None
    sample = SAMPLE / "2025-09.jsonl"
    copy = tmp_path / "mirrored.jsonl"
    copy.write_text(sample.read_text().replace("www.windvane", "mirror.windvane"))
    run(f"lostfound ingest {sample} {copy} --sweep 2025-09 --data-dir mirrored", tmp_path, environment)
    by_spark = run(example[1], tmp_path, environment)
    by_duckdb = run("lostfound mirrors --from exported", tmp_path, environment)
    assert "mirror.windvane.example" in by_duckdb
    assert by_spark.endswith(by_duckdb)
    assert [path for path in tmp_path.iterdir() if path.name.startswith("lostfound-sql-")] == []
