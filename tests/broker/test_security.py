"""Test TLS, SASL and the token: commands need them, and no secret is printed or logged."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.broker.running import HOME, Collection, free_port, running_broker

SAMPLE = Path(__file__).parents[2] / "streams" / "demo" / "sample" / "2023-03.jsonl"
PASSWORD = "correct-horse-battery"
TOKEN = "a-token-of-the-tests"
NEEDS_TOKEN = ("/rows", "/retract", "/decisions", "/sweeps")
# Each listener speaks one protocol; the certificates are self-signed for the address.
PROPERTIES = """
listeners=PLAINTEXT://127.0.0.1:{0},CONTROLLER://127.0.0.1:{1},SASL_PLAINTEXT://127.0.0.1:{2},SASL_SSL://127.0.0.1:{3},SSL://127.0.0.1:{4}
advertised.listeners=PLAINTEXT://127.0.0.1:{0},SASL_PLAINTEXT://127.0.0.1:{2},SASL_SSL://127.0.0.1:{3},SSL://127.0.0.1:{4}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_me="{password}";
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_me="{password}";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={folder}/both.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/cert.pem
listener.name.ssl.ssl.client.auth=required
"""


class Secured:
    """A broker with one port per security protocol."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plain, self.sasl, self.sasl_ssl, self.ssl = (free_port() for _ in range(4))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
            check=True, capture_output=True,
        )  # fmt: skip
        both = (folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes()
        (folder / "both.pem").write_bytes(both)
        ports = (self.plain, self.plain + 1, self.sasl, self.sasl_ssl, self.ssl)
        (folder / "more").write_text(PROPERTIES.format(*ports, password=PASSWORD, folder=folder))

    def add_scram_user(self) -> None:
        subprocess.run(
            ["java", "-cp", f"{HOME}/libs/*", "kafka.admin.ConfigCommand", "--bootstrap-server",
             f"127.0.0.1:{self.plain}", "--alter", "--add-config", f"SCRAM-SHA-512=[password={PASSWORD}]",
             "--entity-type", "users", "--entity-name", "me"],
            check=True, capture_output=True,
        )  # fmt: skip

    def protocols(self) -> dict[str, tuple[int, dict[str, str]]]:
        """Return the port and the environment of each protocol."""
        user = {"KAFKA_SASL_USERNAME": "me", "KAFKA_SASL_PASSWORD": PASSWORD}
        authority = {"KAFKA_SSL_CAFILE": str(self.folder / "cert.pem")}
        client_certificate = {
            "KAFKA_SSL_CERTFILE": str(self.folder / "cert.pem"),
            "KAFKA_SSL_KEYFILE": str(self.folder / "key.pem"),
        }
        scram_mechanism = {"KAFKA_SASL_MECHANISM": "SCRAM-SHA-512"}
        return {
            "sasl": (self.sasl, {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT"} | user),
            "sasl_ssl": (self.sasl_ssl, {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL"} | user | authority | scram_mechanism),
            "ssl": (self.ssl, {"KAFKA_SECURITY_PROTOCOL": "SSL"} | authority | client_certificate),
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured_broker = Secured(tmp_path_factory.mktemp("secured"))
    with running_broker(secured_broker.folder, secured_broker.plain, secured_broker.folder / "more"):
        secured_broker.add_scram_user()
        yield secured_broker


@pytest.fixture
def secured_collection(
    request: pytest.FixtureRequest, secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Collection]:
    """A collection over one protocol; all processes have the environment for it."""
    port, environment = secured.protocols()[request.param]
    for name, value in (environment | {"LOSTFOUND_TOKEN": TOKEN}).items():
        monkeypatch.setenv(name, value)
    collection = Collection(tmp_path, f"127.0.0.1:{port}", 2)
    yield collection
    collection.kill()


@pytest.mark.parametrize("secured_collection", ["sasl", "sasl_ssl", "ssl"], indirect=True)
def test_every_protocol_works_and_wrong_credentials_are_reported(
    secured_collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    secured_collection("publish", SAMPLE, "--sweep", "a")
    secured_collection.run_workers("a")
    assert secured_collection.clusters("a")
    log = (secured_collection.folder / "a.log").read_text()
    assert PASSWORD not in log
    assert TOKEN not in log
    commands: Iterator[list[Any]] = cycle(
        [["topics", "create"], ["publish", SAMPLE, "--sweep", "b"], ["worker", "--port", 0]]
    )
    for name, value, expected in (
        ("KAFKA_SASL_PASSWORD", "another-secret", "KAFKA_SASL_PASSWORD"),
        ("KAFKA_SSL_CAFILE", "", "KAFKA_SSL_CAFILE"),
        ("KAFKA_SSL_CERTFILE", "", "cannot be reached"),
        ("KAFKA_SECURITY_PROTOCOL", "PLAINTEXT", "KAFKA_SECURITY_PROTOCOL"),
    ):
        with monkeypatch.context() as wrong:
            if name in os.environ:
                wrong.setenv(name, value)
                # All commands connect in the same way, so one command per case is enough.
                error = failing_output(secured_collection, *next(commands))
                assert expected in error
                assert "another-secret" not in error


def failing_output(collection: Collection, *arguments: object) -> str:
    """Run a command that must fail with exit code 2; return its error output at the highest log level."""
    process = subprocess.run(
        collection.command(*arguments, "-vv"), capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 2, process.stdout + process.stderr
    assert "Traceback" not in process.stderr
    return process.stderr


def test_workers_require_the_token(make_collection: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    collection = make_collection(2)
    collection("publish", SAMPLE, "--sweep", "a")
    monkeypatch.delenv("LOSTFOUND_TOKEN")
    assert "LOSTFOUND_TOKEN" in failing_output(collection, "worker", "--host", "0.0.0.0", "--port", 0)
    monkeypatch.setenv("LOSTFOUND_TOKEN", TOKEN)
    urls = collection.serve_all(["a", "b"])
    # Each of the two workers has to query the other.
    for url in urls:
        assert json.loads(
            collection.run_until_success("clusters", "--json", "--min-size", "1", "--limit", "1", "--server", url)
        )
        assert [post(url, path) for path in NEEDS_TOKEN] == [401] * len(NEEDS_TOKEN)
        assert [post(url, path, f"Bearer {TOKEN}x") for path in NEEDS_TOKEN] == [401] * len(NEEDS_TOKEN)
        for open_to_all in ("/livez", "/readyz", "/metrics"):
            with urllib.request.urlopen(url + open_to_all, timeout=10) as answer:
                assert answer.status == 200
    for token in ("", "another", "with spaces"):
        monkeypatch.setenv("LOSTFOUND_TOKEN", token)
        for command in (["clusters"], ["forget", "https://a.example/"], ["sweep", "open", "c"]):
            assert "LOSTFOUND_TOKEN" in collection.run(*command, "--server", urls[0], code=2)
    assert TOKEN not in (collection.folder / "a.log").read_text()


def test_without_a_token_nothing_is_changed(
    make_collection: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOSTFOUND_TOKEN")
    collection = make_collection(1)
    collection("publish", SAMPLE, "--sweep", "a")
    collection.run_workers("a")
    url = collection.serve("a")
    before = collection.run("clusters", "--json", "--min-size", "1", "--server", url)
    assert before
    page = "https://www.windvane.example/"
    for command in (["forget", page], ["gone", page], ["sweep", "cancel", "a"]):
        assert "LOSTFOUND_TOKEN" in collection.run(*command, "--server", url, code=2)
    assert collection.run("clusters", "--json", "--min-size", "1", "--server", url) == before


def post(url: str, path: str, authorization: str = "") -> int:
    request = urllib.request.Request(url + path, b"{}", {"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
