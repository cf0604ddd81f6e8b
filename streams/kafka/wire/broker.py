"""The broker's addresses and credentials, read from the environment to keep secrets out of files and logs."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from logging.handlers import BufferingHandler
from typing import Any

import msgspec

from streams.errors import InputError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_ADDRESS = re.compile(r"(\[(?P<ipv6>[^\]]+)\]|(?P<host>[^\s\[\]:/@?#]+))(:(?P<port>[0-9]{1,5}))?")
_HINTS = (  # text in the client's error message, and the hint for it
    ("SaslAuthenticationFailed", "check KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD and KAFKA_SASL_MECHANISM"),
    ("UnsupportedSaslMechanism", "set KAFKA_SASL_MECHANISM to a mechanism that the broker has enabled"),
    ("CERTIFICATE_VERIFY_FAILED", "set KAFKA_SSL_CAFILE to the certificate of the broker's certificate authority"),
)


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses and credentials of the broker. The `repr` contains no secrets."""

    bootstrap: str  # HOST:PORT or HOST:PORT,HOST:PORT,...
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = ""
    cafile: str = ""
    certfile: str = ""
    keyfile: str = ""

    def __repr__(self) -> str:
        return f"Broker({self.bootstrap}, {self.protocol})"

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None without TLS. Raise InputError if a certificate or key file is unusable."""
        if not self.protocol.endswith("SSL"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.cafile or None)
            if self.certfile:
                context.load_cert_chain(self.certfile, self.keyfile or None)
        except OSError as error:
            raise InputError(
                f"cannot set up TLS to the broker: {error}",
                "check KAFKA_SSL_CAFILE, KAFKA_SSL_CERTFILE and KAFKA_SSL_KEYFILE",
            ) from error
        return context

    def client_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments for an aiokafka client."""
        arguments = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.protocol,
            "ssl_context": self.tls_context(),
        }
        if self.protocol.startswith("SASL"):
            arguments |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return arguments


@contextmanager
def collect_client_errors() -> Iterator[list[logging.LogRecord]]:
    """Collect the errors that aiokafka logs: only the log contains the reason for a failed connection."""
    log = logging.getLogger("aiokafka")
    old_level, old_propagate = log.level, log.propagate
    handler = BufferingHandler(capacity=1 << 20)  # more records than expected: a full buffer would be cleared
    handler.setLevel(logging.ERROR)
    if old_level > logging.ERROR:  # logging of errors is disabled: collect errors without printing them
        log.setLevel(logging.ERROR)
        log.propagate = False
    log.addHandler(handler)
    try:
        yield handler.buffer
    finally:
        log.removeHandler(handler)
        log.setLevel(old_level)
        log.propagate = old_propagate


def unreachable_error(broker: Broker, error: Exception, client_errors: list[logging.LogRecord]) -> InputError:
    """Return the error to raise for a failed connection. Its reason is the last error that the client logged."""
    reason = client_errors[-1].getMessage() if client_errors else str(error)
    default_hint = f"check --bootstrap or KAFKA_BOOTSTRAP; KAFKA_SECURITY_PROTOCOL is {broker.protocol}"
    hint = next((hint for text, hint in _HINTS if text in reason), default_hint)
    return InputError(f"the broker at {broker.bootstrap} cannot be reached: {reason}", hint)


def _is_address(address: str) -> bool:
    """Return whether an address is HOST, HOST:PORT, [IPV6] or [IPV6]:PORT."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"] or 1) < 1 << 16:
        return False
    try:
        if match["ipv6"]:
            ipaddress.IPv6Address(match["ipv6"])
        else:
            match["host"].encode("idna")  # raises ValueError for an invalid host name
    except ValueError:
        return False
    return True


def from_environment(bootstrap: str | None, environment: Mapping[str, str] | None = None) -> Broker:
    """Return the broker at `bootstrap` or KAFKA_BOOTSTRAP or the default. Raise InputError for invalid settings."""
    environment = os.environ if environment is None else environment
    protocol = environment.get("KAFKA_SECURITY_PROTOCOL", "PLAINTEXT").upper()
    mechanism = environment.get("KAFKA_SASL_MECHANISM", "PLAIN" if protocol.startswith("SASL") else "").upper()
    checks: list[tuple[str, str, Sequence[str]]] = [("KAFKA_SECURITY_PROTOCOL", protocol, _PROTOCOLS)]
    if protocol.startswith("SASL"):
        checks.append(("KAFKA_SASL_MECHANISM", mechanism, _SASL_MECHANISMS))
    for name, value, supported in checks:
        if value not in supported:
            raise InputError(f"{name} is {value!r}, which is not supported", f"use one of {', '.join(supported)}")
    addresses = bootstrap or environment.get("KAFKA_BOOTSTRAP") or DEFAULT_BOOTSTRAP
    for address in map(str.strip, addresses.split(",")):
        if not _is_address(address):
            raise InputError(
                f"{address!r} is not a broker address", "use HOST:PORT, and commas between several addresses"
            )
    return Broker(
        bootstrap=addresses,
        protocol=protocol,
        mechanism=mechanism,
        username=environment.get("KAFKA_SASL_USERNAME", ""),
        password=environment.get("KAFKA_SASL_PASSWORD", ""),
        cafile=environment.get("KAFKA_SSL_CAFILE", ""),
        certfile=environment.get("KAFKA_SSL_CERTFILE", ""),
        keyfile=environment.get("KAFKA_SSL_KEYFILE", ""),
    )
