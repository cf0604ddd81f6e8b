"""Test the image and the compose file without a Docker engine, which test machines may not have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from streams.settings import load

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8")


def test_images_are_pinned() -> None:
    images = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) + re.findall(r"image: (\S+)", COMPOSE)
    assert images
    assert all(re.search(r":v?\d+\.\d+", image) for image in images)


def test_the_image_runs_without_root_and_has_a_health_check() -> None:
    final_stage = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    assert re.search(r"^USER lostfound$", final_stage, re.MULTILINE)
    assert re.search(r"^HEALTHCHECK .*CMD", final_stage, re.MULTILINE)


def test_the_image_ships_a_warm_cache_outside_of_tmp() -> None:
    final_stage = DOCKERFILE.rsplit("\nFROM ", 1)[1]
    cache_folder = re.search(r"NUMBA_CACHE_DIR=(\S+)", final_stage)
    assert cache_folder is not None
    assert not cache_folder[1].startswith("/tmp"), "containers often mount an empty folder there"
    before, _, warm_up = final_stage.partition("RUN lostfound")
    assert re.search(rf"install -d -o lostfound .*{cache_folder[1]}", before)
    assert "\nUSER lostfound\n" in before
    assert "demo --sample" in warm_up
    assert f"chmod -R a+rwX {cache_folder[1]}" in warm_up


def test_the_image_copies_existing_files_that_are_not_ignored() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied_paths = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)]
    sources = {source for words in copied_paths for source in words}
    assert sources == allowed
    assert all((ROOT / source).exists() for source in sources)


def test_the_brokers_with_and_without_docker_have_the_same_version() -> None:
    pom = ET.parse(ROOT / "docker" / "broker" / "pom.xml")
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    archives = {
        d.findtext("m:artifactId", "", space): d.findtext("m:version", "", space)
        for d in pom.iterfind(".//m:dependency", space)
    }
    assert f"image: apache/kafka:{archives['kafka_2.13']}" in COMPOSE


def test_docker_compose_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("no docker compose")
    command = [docker, "compose", "-f", str(ROOT / "docker" / "compose.yaml"), "--profile", "command", "config", "-q"]
    environment = {**os.environ, "LOSTFOUND_TOKEN": "any"}
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert process.returncode == 0, process.stderr


def test_no_worker_listens_on_all_addresses_without_a_token() -> None:
    services = re.split(r"^  (?=\S)", COMPOSE, flags=re.MULTILINE)
    exposed = [service for service in services if "0.0.0.0" in service]
    assert exposed
    assert all("<<: *worker" in service for service in exposed)
    assert "LOSTFOUND_TOKEN: ${LOSTFOUND_TOKEN:?" in COMPOSE.partition("\nservices:")[0]


def test_all_workers_share_the_snapshot_folder_of_their_settings() -> None:
    folder = load(ROOT / "docker" / "lostfound.toml").kafka.snapshot_folder
    workers = [service for service in re.split(r"^  (?=\S)", COMPOSE, flags=re.MULTILINE) if "<<: *worker" in service]
    assert len(workers) == 3
    for worker in workers:
        assert f"- snapshots:{folder}\n" in worker
        assert "- ./lostfound.toml:/etc/lostfound.toml:ro\n" in worker
    assert "LOSTFOUND_CONFIG: /etc/lostfound.toml\n" in COMPOSE
    # A new volume gets the owner of the image's folder.
    assert re.search(rf"install -d -o lostfound .*{folder}\b", DOCKERFILE)
