"""How to reach the broker: from the environment, so that secrets stay out of files, arguments and logs."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from streams.errors import InputError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ADDRESS = re.compile(r"(\[(?P<six>[^\]]+)\]|(?P<host>[^\s\[\]:/@?#]+))(:(?P<port>[0-9]{1,5}))?")
_HINTS = (
    ("SaslAuthenticationFailed", "check KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and KAFKA_SASL_MECHANISM"),
    ("UnsupportedSaslMechanism", "KAFKA_SASL_MECHANISM must be one that the broker has switched on"),
    ("CERTIFICATE_VERIFY_FAILED", "KAFKA_SSL_CAFILE names the authority that signed the broker's certificate"),
)


class Broker(msgspec.Struct, frozen=True):
    """Addresses and credentials; its text shows no secret."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    cafile: str = ""
    certfile: str = ""
    keyfile: str = ""

    def __repr__(self) -> str:
        return f"Broker({self.bootstrap}, {self.protocol})"

    def tls(self) -> ssl.SSLContext | None:
        """The context of a connection with TLS; None without; raises InputError for files that cannot be used."""
        if not self.protocol.endswith("SSL"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.cafile or None)
            if self.certfile:
                context.load_cert_chain(self.certfile, self.keyfile or None)
        except OSError as error:
            raise InputError(f"TLS to the broker: {error}", "check the files that KAFKA_SSL_... name") from error
        return context

    def client(self) -> dict[str, Any]:
        """Arguments of an aiokafka client."""
        found: dict[str, Any] = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if context := self.tls():
            found["ssl_context"] = context
        if self.protocol.startswith("SASL"):
            found |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return found


class _ClientErrors(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.said.append(record.getMessage())


@contextmanager
def capture_client_errors() -> Iterator[list[str]]:
    """What the client logs as errors meanwhile: why it cannot connect it tells nobody else."""
    handler, log = _ClientErrors(), logging.getLogger("aiokafka")
    level, propagate = log.level, log.propagate
    if level > logging.ERROR:  # silenced: it is to stay so elsewhere
        log.setLevel(logging.ERROR)
        log.propagate = False
    log.addHandler(handler)
    try:
        yield handler.said
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate


def unreachable(broker: Broker, error: Exception, said: list[str]) -> InputError:
    """The error of a broker that cannot be reached, with what the client `said` of it."""
    why = said[-1] if said else str(error)
    common = f"name it with --bootstrap or KAFKA_BOOTSTRAP; KAFKA_SECURITY_PROTOCOL is {broker.protocol}"
    hint = next((hint for word, hint in _HINTS if word in why), common)
    return InputError(f"the broker at {broker.bootstrap} cannot be reached: {why}", hint)


def _is_address(address: str) -> bool:
    """Whether it is HOST, HOST:PORT, [IPV6] or [IPV6]:PORT."""
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found["port"] or 1) < 1 << 16:
        return False
    try:
        if found["six"]:
            ipaddress.IPv6Address(found["six"])
        else:
            found["host"].encode("idna")  # as it is when it is looked up
    except ValueError:
        return False
    return True


def from_environment(bootstrap: str | None, environment: Mapping[str, str] | None = None) -> Broker:
    """The broker that `bootstrap` or KAFKA_BOOTSTRAP names; raises InputError for settings that do not fit."""
    given = os.environ if environment is None else environment
    protocol = given.get("KAFKA_SECURITY_PROTOCOL", "PLAINTEXT").upper()
    mechanism = given.get("KAFKA_SASL_MECHANISM", "PLAIN" if protocol.startswith("SASL") else "").upper()
    if protocol not in _PROTOCOLS:
        raise InputError(f"KAFKA_SECURITY_PROTOCOL is {protocol!r}", f"use one of {', '.join(_PROTOCOLS)}")
    if protocol.startswith("SASL") and mechanism not in _MECHANISMS:
        raise InputError(f"KAFKA_SASL_MECHANISM is {mechanism!r}", f"use one of {', '.join(_MECHANISMS)}")
    addresses = bootstrap or given.get("KAFKA_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    for address in addresses.split(","):
        if not _is_address(address.strip()):
            raise InputError(
                f"{address.strip()!r} is no address of a broker", "name it as host:port, several separated by commas"
            )
    return Broker(
        addresses,
        protocol,
        mechanism,
        given.get("KAFKA_SASL_USERNAME", ""),
        given.get("KAFKA_SASL_PASSWORD", ""),
        given.get("KAFKA_SSL_CAFILE", ""),
        given.get("KAFKA_SSL_CERTFILE", ""),
        given.get("KAFKA_SSL_KEYFILE", ""),
    )
